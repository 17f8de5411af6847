// The client that oapi-codegen makes of /openapi.yaml, used: main URL
package main

import (
	"bufio"
	"context"
	"fmt"
	"log"
	"os"
	"strings"

	"clients/api"
)

func need(good bool, what string, got any) {
	if !good {
		log.Fatalf("%s: %+v", what, got)
	}
}

func point[T any](value T) *T { return &value }

func main() {
	ctx := context.Background()
	client, err := api.NewClientWithResponses(os.Args[1])
	need(err == nil, "client", err)

	got, err := client.AcquireWithResponse(ctx, "gojob", nil,
		api.AcquireJSONRequestBody{LeaseMs: point(int64(60000)), Instance: point("go")})
	need(err == nil && got.JSON200 != nil && got.JSON200.Token > 1<<32, "acquire", got)
	held, err := client.AcquireWithResponse(ctx, "gojob", nil, api.AcquireJSONRequestBody{})
	need(err == nil && held.JSON423 != nil && *held.JSON423.Instance == "go", "acquire again", held)
	renewed, err := client.RenewWithResponse(ctx, "gojob", api.RenewJSONRequestBody{Grant: got.JSON200.Grant})
	need(err == nil && renewed.JSON200 != nil && renewed.JSON200.Token == got.JSON200.Token, "renew", renewed)
	released, err := client.ReleaseWithResponse(ctx, "gojob", api.ReleaseJSONRequestBody{Grant: got.JSON200.Grant})
	need(err == nil && released.JSON200 != nil && released.JSON200.Released, "release", released)

	for i := 0; i < 2; i++ {
		session, err := client.OpenSessionWithResponse(ctx, api.OpenSessionJSONRequestBody{LeaseMs: point(int64(60000))})
		need(err == nil && session.JSON200 != nil, "session", session)
		shared, err := client.AcquireWithResponse(ctx, "godoc", nil, api.AcquireJSONRequestBody{
			Mode: point(api.AcquireJSONBodyMode("shared")), Session: &session.JSON200.Session})
		need(err == nil && shared.JSON200 != nil && shared.JSON200.Mode == "shared", "share", shared)
	}

	events, err := client.Events(ctx, &api.EventsParams{LastEventId: point("0")})
	need(err == nil, "events", err)
	defer events.Body.Close()
	for lines := bufio.NewScanner(events.Body); lines.Scan(); {
		if strings.Contains(lines.Text(), `"granted"`) && strings.Contains(lines.Text(), `"gojob"`) {
			fmt.Println("used")
			return
		}
	}
	log.Fatal("no event tells of the grant")
}
