package main

import (
	"fmt"
	"os"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: go run ./internal/flaky FILE")
		os.Exit(2)
	}
	f, err := os.Open(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, "flaky:", err)
		os.Exit(1)
	}
	defer f.Close()
	failures, err := read(f)
	if err != nil {
		fmt.Fprintf(os.Stderr, "flaky: %s: %v\n", os.Args[1], err)
		os.Exit(1)
	}
	code := 0
	for _, x := range failures {
		fmt.Println(x)
		if x.counts != "" {
			code = 1
		}
	}
	os.Exit(code)
}
