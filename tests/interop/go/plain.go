package main

import (
	"errors"
	"fmt"
	"math/big"
	"math/rand"
	"strconv"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

type item = map[string]types.AttributeValue

func str(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }
func num(n int64) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.FormatInt(n, 10)}
}

func refused(err error) bool {
	var failed *types.ConditionalCheckFailedException
	return errors.As(err, &failed)
}

// What was written last, and what it takes to renew or release it.
type grant struct {
	id    string
	until int64
	token int64
	stop  chan struct{}
}

// The requests of one format.
type requests interface {
	try(name string) (*grant, error) // nil, nil: held
	renew(name string, g *grant) error
	drop(name string, g *grant) error
	heartbeats() bool
}

// The rest is alike: waiting, heartbeats, the table of what is held.
type plain struct {
	settings
	how  requests
	mu   sync.Mutex
	held map[string]*grant
}

func (p *plain) acquire(name string, wait time.Duration, _, _ string) string {
	for end := time.Now().Add(wait); ; time.Sleep(100 * time.Millisecond) {
		g, err := p.how.try(name)
		if err != nil {
			return "error " + err.Error()
		}
		if g != nil {
			g.stop = make(chan struct{})
			p.mu.Lock()
			p.held[name] = g
			p.mu.Unlock()
			if p.how.heartbeats() {
				go p.keepAlive(name, g)
			}
			return fmt.Sprintf("ok %d", g.token)
		}
		if !time.Now().Before(end) {
			return "held"
		}
	}
}

func (p *plain) keepAlive(name string, g *grant) {
	for {
		select {
		case <-g.stop:
			return
		case <-time.After(p.lease / 4):
			p.mu.Lock()
			if p.held[name] == g {
				p.how.renew(name, g)
			}
			p.mu.Unlock()
		}
	}
}

func (p *plain) release(name string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	g := p.held[name]
	delete(p.held, name)
	if g == nil {
		return "lost"
	}
	close(g.stop)
	if err := p.how.drop(name, g); err != nil {
		if refused(err) {
			return "lost"
		}
		return "error " + err.Error()
	}
	return "ok"
}

func (p *plain) data(name string) string    { return "error no data" }
func (p *plain) purpose(name string) string { return "error no attributes" }

func (s *settings) put(i item, condition string, names map[string]string, values item) error {
	_, err := s.db.PutItem(background, &dynamodb.PutItemInput{
		TableName: &s.table, Item: i, ConditionExpression: &condition,
		ExpressionAttributeNames: names, ExpressionAttributeValues: values})
	return err
}

func (s *settings) update(key item, update, condition string, names map[string]string, values item) error {
	_, err := s.db.UpdateItem(background, &dynamodb.UpdateItemInput{
		TableName: &s.table, Key: key, UpdateExpression: &update, ConditionExpression: &condition,
		ExpressionAttributeNames: names, ExpressionAttributeValues: values})
	return err
}

func (s *settings) remove(key item, condition string, names map[string]string, values item) error {
	_, err := s.db.DeleteItem(background, &dynamodb.DeleteItemInput{
		TableName: &s.table, Key: key, ConditionExpression: &condition,
		ExpressionAttributeNames: names, ExpressionAttributeValues: values})
	return err
}

// ---- dlock ----

type dlock struct{ settings }

const skew = time.Second

func (d *dlock) heartbeats() bool { return true }

func (d *dlock) try(name string) (*grant, error) {
	now := time.Now()
	g := &grant{id: fmt.Sprintf("%s-%d", d.owner, rand.Int63()), until: now.Add(d.lease).UnixMilli()}
	i := item{"key": str(name), "owner": str(g.id), "until": num(g.until)}
	condition := "attribute_not_exists(#k) OR #u <= :t"
	names := map[string]string{"#k": "key", "#u": "until"}
	values := item{":t": num(now.Add(-skew).UnixMilli())}
	if d.fencing {
		out, err := d.db.GetItem(background, &dynamodb.GetItemInput{
			TableName: &d.table, Key: item{"key": str(name)}, ConsistentRead: aws.Bool(true)})
		if err != nil {
			return nil, err
		}
		g.token = 1
		condition, values = "attribute_not_exists(#k)", nil
		names = map[string]string{"#k": "key"}
		if stored, ok := out.Item["fencingToken"].(*types.AttributeValueMemberB); ok {
			until, _ := strconv.ParseInt(out.Item["until"].(*types.AttributeValueMemberN).Value, 10, 64)
			if until >= now.Add(-skew).UnixMilli() {
				return nil, nil
			}
			g.token = new(big.Int).SetBytes(stored.Value).Int64() + 1
			condition = "attribute_not_exists(#k) OR (#u = :u AND #o = :o AND #f = :f)"
			names = map[string]string{"#k": "key", "#u": "until", "#o": "owner", "#f": "fencingToken"}
			values = item{":u": out.Item["until"], ":o": out.Item["owner"], ":f": out.Item["fencingToken"]}
		}
		i["fencingToken"] = &types.AttributeValueMemberB{Value: big.NewInt(g.token).Bytes()}
	}
	err := d.put(i, condition, names, values)
	if refused(err) {
		return nil, nil
	}
	return g, err
}

func (d *dlock) mine(g *grant) (string, map[string]string, item) {
	return "#o = :o AND #u = :u", map[string]string{"#o": "owner", "#u": "until"},
		item{":o": str(g.id), ":u": num(g.until)}
}

func (d *dlock) renew(name string, g *grant) error {
	condition, names, values := d.mine(g)
	until := time.Now().Add(d.lease).UnixMilli()
	values[":n"] = num(until)
	err := d.update(item{"key": str(name)}, "SET #u = :n", condition, names, values)
	if err == nil {
		g.until = until
	}
	return err
}

func (d *dlock) drop(name string, g *grant) error {
	condition, names, values := d.mine(g)
	if !d.fencing {
		return d.remove(item{"key": str(name)}, condition, names, values)
	}
	values[":n"] = num(1000)
	return d.update(item{"key": str(name)}, "SET #u = :n", condition, names, values)
}

// ---- lockservice ----

type lockservice struct{ settings }

func (l *lockservice) heartbeats() bool { return true }

func (l *lockservice) try(name string) (*grant, error) {
	now := time.Now().Unix()
	lease := int64(l.lease / time.Second)
	g := &grant{id: fmt.Sprintf("%d", rand.Int63())}
	colon := 0
	for name[colon] != ':' {
		colon++
	}
	err := l.put(item{
		"lockId": str(name), "namespace": str(name[:colon]), "lockName": str(name[colon+1:]),
		"owner": str(l.owner), "instanceId": str(g.id), "leaseDuration": num(lease), "expiry": num(now + lease),
	}, "attribute_not_exists(lockId) OR expiry < :now OR (#o = :o AND instanceId = :i)",
		map[string]string{"#o": "owner"}, item{":now": num(now), ":o": str(l.owner), ":i": str(g.id)})
	if refused(err) {
		return nil, nil
	}
	return g, err
}

func (l *lockservice) renew(name string, g *grant) error {
	return l.update(item{"lockId": str(name)},
		"SET leaseDuration = leaseDuration + :s, expiry = expiry + :s",
		"attribute_exists(lockId) AND expiry >= :now AND #o = :o AND instanceId = :i",
		map[string]string{"#o": "owner"},
		item{":s": num(1), ":now": num(time.Now().Unix()), ":o": str(l.owner), ":i": str(g.id)})
}

func (l *lockservice) drop(name string, g *grant) error {
	return l.remove(item{"lockId": str(name)}, "#o = :o AND instanceId = :i",
		map[string]string{"#o": "owner"}, item{":o": str(l.owner), ":i": str(g.id)})
}

// ---- single-table ----

type singleTable struct{ settings }

func (t *singleTable) heartbeats() bool { return false }

func (t *singleTable) key(name string) item {
	return item{"PK": str("LOCK#" + name), "SK": str("LOCK")}
}

func (t *singleTable) try(name string) (*grant, error) {
	now := time.Now().UTC()
	until := now.Add(t.lease)
	g := &grant{id: fmt.Sprintf("%s_%d", t.owner, now.UnixNano())}
	i := t.key(name)
	i["LockID"], i["Owner"] = str(g.id), str(t.owner)
	i["AcquiredAt"], i["ExpiresAt"] = str(now.Format(time.RFC3339)), str(until.Format(time.RFC3339))
	i["TTL"] = num(until.Unix())
	err := t.put(i, "attribute_not_exists(PK) OR ExpiresAt < :now", nil,
		item{":now": str(now.Format(time.RFC3339))})
	if refused(err) {
		return nil, nil
	}
	return g, err
}

func (t *singleTable) renew(name string, g *grant) error { return nil }

func (t *singleTable) drop(name string, g *grant) error {
	return t.remove(t.key(name), "LockID = :id AND #o = :o", map[string]string{"#o": "Owner"},
		item{":id": str(g.id), ":o": str(t.owner)})
}
