package main

import (
	"os"
	"testing"
)

// asProgram makes the test program run as pingpong. The live tests start it that way, on other nodes as well.
const asProgram = "PINGPONG_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// TestCheckMessage: a message that is corrupt or was not written is detected at every byte that the side can check.
func TestCheckMessage(t *testing.T) {
	for _, host := range []string{"", "peer"} {
		e := &endpoint{o: options{host: host, depth: 2, size: page + 10}, header: routeHeader, slot: routeHeader + page + 10}
		e.memory = make([]byte, e.o.depth*e.slot+e.o.size)
		sent := e.memory[e.o.depth*e.slot:]
		for i := range sent {
			if i%page != 0 {
				sent[i] = fill
			}
		}
		got := e.memory[e.slot+e.header:][:e.o.size]
		copy(got, sent)
		if err := e.checkMessage(1); err != nil {
			t.Errorf("host %q: a correct message: %v", host, err)
		}
		for _, i := range []int{0, 1, page, page + 9} {
			got[i] ^= 1
			known := host != "" || i%page == 0
			if err := e.checkMessage(1); (err != nil) != known {
				t.Errorf("host %q: byte %d is wrong: error %v, want one: %v", host, i, err, known)
			}
			got[i] ^= 1
		}
		if err := e.checkMessage(0); host != "" && err == nil {
			t.Errorf("host %q: a slot without a message was accepted", host)
		}
	}
}
