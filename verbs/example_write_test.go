//go:build unix

package verbs_test

import (
	"context"
	"fmt"

	"github.com/ibrun/ibrun/verbs"
)

// A WRITE stores into memory of the peer, which is not told: the peer finds the data there, or gets a message after it. The peer
// says where its memory is, and the key that allows the access, as it sends its address: over any connection.
func ExampleQP_Write() {
	dev, err := openDevice() // verbs.Open("", verbs.Options{}); in tests a simulated device
	check(err)
	defer dev.Close()
	pd, err := dev.AllocPD()
	check(err)
	channel, err := dev.CreateChannel()
	check(err)
	cq, err := dev.CreateCQ(16, channel)
	check(err)
	mine, theirs := make([]byte, 32), make([]byte, 32)
	mr, err := pd.Register(mine, 0)
	check(err)
	target, err := pd.Register(theirs, verbs.LocalWrite|verbs.RemoteWrite)
	check(err)
	a, err := pd.CreateQP(verbs.QPConfig{Type: verbs.RC, SendCQ: cq})
	check(err)
	b, err := pd.CreateQP(verbs.QPConfig{Type: verbs.RC, SendCQ: cq, Access: verbs.RemoteWrite})
	check(err)
	addressOfA, err := a.Address()
	check(err)
	addressOfB, err := b.Address()
	check(err)
	check(a.Connect(addressOfB))
	check(b.Connect(addressOfA))

	copy(mine, "written")
	check(a.Write(1, verbs.Signaled|verbs.RingDoorbell, target.Remote(8), mr.SGE(0, 7)))

	completions := make([]verbs.WC, 1)
	_, err = cq.Wait(context.Background(), completions)
	check(err)
	check(completions[0].Err()) // nil: the data is in the memory of the peer
	fmt.Printf("%s\n", theirs[8:15])
	// Output: written
}
