package main

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"
)

var status = 0 // the exit status

// Prints "ok NAME", or "FAILED NAME: reason". A case fails by a panic.
func test(name string, run func()) {
	defer func() {
		if reason := recover(); reason != nil {
			status = 1
			fmt.Printf("FAILED %s: %s\n", name, strings.Join(strings.Fields(fmt.Sprint(reason)), " "))
		} else {
			fmt.Println("ok " + name)
		}
	}()
	run()
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func must[T any](value T, err error) T {
	check(err)
	return value
}

func same(got, wanted any) {
	if !reflect.DeepEqual(got, wanted) {
		panic(fmt.Sprintf("got %v, wanted %v", got, wanted))
	}
}

// Returns the error of this type with which the call has failed.
func refused[E error, T any](_ T, err error) (found E) {
	if !errors.As(err, &found) {
		panic(fmt.Sprintf("wanted %T, got %v", found, err))
	}
	return found
}

func sequence(from, to, step int) []int {
	found := []int{}
	for n := from; (step > 0 && n < to) || (step < 0 && n > to); n += step {
		found = append(found, n)
	}
	return found
}

func waitFor(what string, condition func() bool) {
	for end := time.Now().Add(30 * time.Second); !condition(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			panic(what + " took more than 30 s")
		}
	}
}
