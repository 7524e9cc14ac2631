package verbs_test

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/ibrun/ibrun/verbs"
)

// The completion of a failed request, as CQ.Poll returns it, contains the status.
func ExampleWC_Err() {
	wc := verbs.WC{ID: 7, QPN: 0x11, Status: verbs.StatusRNRRetryExceeded}
	if err := wc.Err(); errors.Is(err, verbs.StatusRNRRetryExceeded) {
		fmt.Println("the peer has to post receives first:", err)
	}
	// Output: the peer has to post receives first: verbs: queue pair 0x11, request 7: receiver not ready, retries exceeded
}

// The address of a queue pair is sent to the peer as bytes, over any connection.
func ExampleAddress() {
	mine := verbs.Address{Type: verbs.RC, MTU: verbs.MTU1024, QPN: 0x11, PSN: 42, GID: netip.MustParseAddr("::ffff:10.0.0.1")}
	bytes, err := mine.MarshalBinary() // mine comes from QP.Address
	if err != nil {
		fmt.Println(err)
	}

	var peer verbs.Address // the argument of QP.Connect
	if err := peer.UnmarshalBinary(bytes); err != nil {
		fmt.Println(err)
	}
	fmt.Println(len(bytes), "bytes:", peer.Type, "queue pair", peer.QPN, "at", peer.GID)
	fmt.Println("cut short:", errors.Is(peer.UnmarshalBinary(bytes[1:]), verbs.ErrInvalid))
	// Output:
	// 40 bytes: RC queue pair 17 at ::ffff:10.0.0.1
	// cut short: true
}
