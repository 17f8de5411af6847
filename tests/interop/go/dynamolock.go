package main

import (
	"errors"
	"time"

	"cirello.io/dynamolock/v2"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// The published client.
type original struct {
	settings
	client *dynamolock.Client
	held   map[string]*dynamolock.Lock
}

func newDynamolock(s settings) client {
	options := []dynamolock.ClientOption{
		dynamolock.WithLeaseDuration(s.lease),
		dynamolock.WithHeartbeatPeriod(s.lease / 4),
		dynamolock.WithOwnerName(s.owner),
		dynamolock.WithPartitionKeyName("key"),
	}
	if s.sortName != "" {
		options = append(options, dynamolock.WithSortKey(s.sortName, s.sortValue))
	}
	client, err := dynamolock.New(s.db, s.table, options...)
	if err != nil {
		panic(err)
	}
	return &original{settings: s, client: client, held: map[string]*dynamolock.Lock{}}
}

func (o *original) acquire(name string, wait time.Duration, data, purpose string) string {
	options := []dynamolock.AcquireLockOption{dynamolock.WithRefreshPeriod(100 * time.Millisecond)}
	if data != "" {
		options = append(options, dynamolock.WithData([]byte(data)), dynamolock.ReplaceData())
	}
	if purpose != "" {
		options = append(options, dynamolock.WithAdditionalAttributes(
			map[string]types.AttributeValue{"purpose": &types.AttributeValueMemberS{Value: purpose}}))
	}
	if !o.keep {
		options = append(options, dynamolock.WithDeleteLockOnRelease())
	}
	if wait == 0 {
		options = append(options, dynamolock.FailIfLocked())
	} else {
		options = append(options, dynamolock.WithAdditionalTimeToWaitForLock(wait))
	}
	lock, err := o.client.AcquireLock(name, options...)
	var denied *dynamolock.LockNotGrantedError
	if errors.As(err, &denied) {
		return "held"
	}
	if err != nil {
		return "error " + err.Error()
	}
	o.held[name] = lock
	return "ok 0"
}

func (o *original) release(name string) string {
	lock := o.held[name]
	delete(o.held, name)
	if lock == nil {
		return "lost"
	}
	options := []dynamolock.ReleaseLockOption{dynamolock.WithDeleteLock(!o.keep)}
	if _, err := o.client.ReleaseLock(lock, options...); err != nil {
		return "error " + err.Error()
	}
	return "ok"
}

func (o *original) data(name string) string {
	lock, err := o.client.Get(name)
	if err != nil {
		return "error " + err.Error()
	}
	return "ok " + string(lock.Data())
}

func (o *original) purpose(name string) string {
	lock, err := o.client.Get(name)
	if err != nil {
		return "error " + err.Error()
	}
	if text, ok := lock.AdditionalAttributes()["purpose"].(*types.AttributeValueMemberS); ok {
		return "ok " + text.Value
	}
	return "ok "
}
