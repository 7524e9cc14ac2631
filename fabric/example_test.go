package fabric_test

import (
	"context"
	"fmt"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/fabric/mem"
)

// pair opens two domains that are peers of each other, and the endpoint from the first to the second.
func pair() (from, to fabric.Domain, ep fabric.Endpoint, err error) {
	transport := mem.NewHub(2).Transport()
	if from, err = transport.Open(context.Background(), &fabric.Config{Self: 0, Size: 2}); err != nil {
		return nil, nil, nil, err
	}
	if to, err = transport.Open(context.Background(), &fabric.Config{Self: 1, Size: 2}); err != nil {
		return nil, nil, nil, err
	}
	ep, err = from.Connect(1, to.Addr())
	return from, to, ep, err
}

// One peer sends, the other polls. Every transport is used like this; here both peers are in one process.
func Example() {
	from, to, ep, err := pair()
	if err != nil {
		fmt.Println(err)
		return
	}
	events := make([]fabric.Event, 8)
	header, payload := []byte("header "), []byte("payload")
	err = ep.Send(header, payload)
	for err == fabric.ErrAgain { // make room, and receive what has arrived
		if _, err = from.Poll(events); err == nil {
			err = ep.Send(header, payload)
		}
	}
	fmt.Println("sent:", err)

	n, err := to.Poll(events) // does not block: a program polls until something arrives, or sleeps after Arm
	for _, ev := range events[:n] {
		fmt.Printf("from peer %d: %s\n", ev.Peer, ev.Data) // valid until the next Poll
	}
	fmt.Println(err, from.Close(), to.Close())
	// Output:
	// sent: <nil>
	// from peer 0: header payload
	// <nil> <nil> <nil>
}
