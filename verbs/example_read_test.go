//go:build unix

package verbs_test

import (
	"context"
	"fmt"

	"github.com/ibrun/ibrun/verbs"
)

// A READ fetches memory of the peer, whose program takes no part in it.
func ExampleQP_Read() {
	dev, err := openDevice() // verbs.Open("", verbs.Options{}); in tests a simulated device
	check(err)
	defer dev.Close()
	pd, err := dev.AllocPD()
	check(err)
	channel, err := dev.CreateChannel()
	check(err)
	cq, err := dev.CreateCQ(16, channel)
	check(err)
	mine, theirs := make([]byte, 32), []byte("the memory of the peer")
	mr, err := pd.Register(mine, verbs.LocalWrite) // a READ writes it
	check(err)
	source, err := pd.Register(theirs, verbs.RemoteRead)
	check(err)
	a, err := pd.CreateQP(verbs.QPConfig{Type: verbs.RC, SendCQ: cq})
	check(err)
	b, err := pd.CreateQP(verbs.QPConfig{Type: verbs.RC, SendCQ: cq, Access: verbs.RemoteRead})
	check(err)
	addressOfA, err := a.Address()
	check(err)
	addressOfB, err := b.Address()
	check(err)
	check(a.Connect(addressOfB))
	check(b.Connect(addressOfA))

	check(a.Read(1, verbs.Signaled|verbs.RingDoorbell, source.Remote(4), mr.SGE(0, 6)))

	completions := make([]verbs.WC, 1)
	_, err = cq.Wait(context.Background(), completions)
	check(err)
	check(completions[0].Err())
	fmt.Printf("%s\n", mine[:6])
	// Output: memory
}
