package main

import (
	"os"
	"testing"
)

// asProgram has the test program be pingpong: that is how the live tests start it, on other nodes as well.
const asProgram = "PINGPONG_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// A message that was damaged, or not written at all, is noticed at every byte that the side knows.
func TestChecked(t *testing.T) {
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
		if err := e.checked(1); err != nil {
			t.Errorf("host %q: a message that is right: %v", host, err)
		}
		for _, i := range []int{0, 1, page, page + 9} {
			got[i] ^= 1
			known := host != "" || i%page == 0
			if err := e.checked(1); (err != nil) != known {
				t.Errorf("host %q: byte %d is wrong: error %v, want one: %v", host, i, err, known)
			}
			got[i] ^= 1
		}
		if err := e.checked(0); host != "" && err == nil {
			t.Errorf("host %q: a slot that nothing arrived in was taken", host)
		}
	}
}
