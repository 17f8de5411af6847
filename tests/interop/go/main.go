// Clients written in Go, behind the line protocol of the interoperability test (see ../run):
//
//	theirs FORMAT ENDPOINT TABLE OWNER LEASE_MS [fencing] [keep] [sort=NAME:VALUE]
//
// dynamolock is the published package. dlock, lockservice and single-table are not to be had as
// packages: for them the requests of docs/FORMATS.md are issued with the official SDK.
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
)

// A client: acquire answers "ok TOKEN", "held" or "error …".
type client interface {
	acquire(name string, wait time.Duration, data, purpose string) string
	release(name string) string
	data(name string) string
	purpose(name string) string
}

type settings struct {
	format, table, owner string
	lease                time.Duration
	fencing, keep        bool
	sortName, sortValue  string
	db                   *dynamodb.Client
}

func main() {
	if len(os.Args) < 6 {
		os.Exit(64)
	}
	ms, _ := strconv.Atoi(os.Args[5])
	s := settings{format: os.Args[1], table: os.Args[3], owner: os.Args[4], lease: time.Duration(ms) * time.Millisecond}
	for _, option := range os.Args[6:] {
		switch {
		case option == "fencing":
			s.fencing = true
		case option == "keep":
			s.keep = true
		case strings.HasPrefix(option, "sort="):
			parts := strings.SplitN(option[5:], ":", 2)
			s.sortName, s.sortValue = parts[0], parts[1]
		}
	}
	s.db = dynamodb.NewFromConfig(aws.Config{
		Region:      "us-east-1",
		Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
	}, dynamodb.WithEndpointResolver(dynamodb.EndpointResolverFromURL(os.Args[2])))
	var c client
	switch s.format {
	case "dynamolock":
		c = newDynamolock(s)
	case "dlock":
		c = &plain{settings: s, how: &dlock{s}, held: map[string]*grant{}}
	case "lockservice":
		c = &plain{settings: s, how: &lockservice{s}, held: map[string]*grant{}}
	case "single-table":
		c = &plain{settings: s, how: &singleTable{s}, held: map[string]*grant{}}
	default:
		fmt.Println("error no such format")
		os.Exit(64)
	}
	fmt.Println("ready")
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		if lines.Text() == "quit" {
			return
		}
		fmt.Println(obey(c, strings.Split(lines.Text(), " ")))
	}
}

func obey(c client, words []string) string {
	for len(words) < 5 {
		words = append(words, "")
	}
	ms, _ := strconv.Atoi(words[2])
	switch words[0] {
	case "acquire":
		return c.acquire(words[1], time.Duration(ms)*time.Millisecond, words[3], words[4])
	case "release":
		return c.release(words[1])
	case "data":
		return c.data(words[1])
	case "purpose":
		return c.purpose(words[1])
	case "count":
		ms, _ := strconv.Atoi(words[3])
		return count(c, words[1], words[2], time.Duration(ms)*time.Millisecond)
	}
	return "error unknown command " + words[0]
}

// Increments the number in a file under the lock, as often as it can.
func count(c client, name, path string, d time.Duration) string {
	done := 0
	for end := time.Now().Add(d); time.Now().Before(end); {
		got := c.acquire(name, 5*time.Second, "", "")
		if got == "held" {
			continue
		}
		if !strings.HasPrefix(got, "ok") {
			return got
		}
		text, _ := os.ReadFile(path)
		value, _ := strconv.Atoi(strings.TrimSpace(string(text)))
		time.Sleep(3 * time.Millisecond)
		os.WriteFile(path, []byte(fmt.Sprintf("%d\n", value+1)), 0o600)
		done++
		c.release(name)
		time.Sleep(3 * time.Millisecond)
	}
	return fmt.Sprintf("ok %d", done)
}

var background = context.Background()
