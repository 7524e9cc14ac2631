//go:build unix

package verbs_test

import (
	"context"
	"fmt"

	"github.com/ibrun/ibrun/verbs"
)

// Two queue pairs of one device: a sends a message to b. In two processes each would have one of them, and send its address to
// the other over any connection. The function check panics if there is an error.
func ExampleQP_Send() {
	dev, err := openDevice() // verbs.Open("", verbs.Options{}); in tests a simulated device
	check(err)
	defer dev.Close() // closes all that follows, too
	pd, err := dev.AllocPD()
	check(err)
	channel, err := dev.CreateChannel() // for CQ.Wait; programs that only poll need none
	check(err)
	cq, err := dev.CreateCQ(16, channel)
	check(err)
	buf := make([]byte, 64)
	mr, err := pd.Register(buf, verbs.LocalWrite)
	check(err)
	a, err := pd.CreateQP(verbs.QPConfig{Type: verbs.RC, SendCQ: cq})
	check(err)
	b, err := pd.CreateQP(verbs.QPConfig{Type: verbs.RC, SendCQ: cq})
	check(err)
	addressOfA, err := a.Address()
	check(err)
	addressOfB, err := b.Address()
	check(err)

	const received, sent = 1, 2
	check(b.Recv(received, mr.SGE(32, 32))) // before the peer sends
	check(a.Connect(addressOfB))
	check(b.Connect(addressOfA))
	copy(buf, "hello")
	check(a.Send(sent, verbs.Signaled|verbs.RingDoorbell, mr.SGE(0, 5)))

	completions := make([]verbs.WC, 2)
	for left := 2; left > 0; {
		n, err := cq.Wait(context.Background(), completions)
		check(err)
		for _, c := range completions[:n] {
			check(c.Err())
			if c.ID == received {
				fmt.Printf("%d bytes: %s\n", c.Len, buf[32:32+c.Len])
			}
		}
		left -= n
	}
	// Output: 5 bytes: hello
}
