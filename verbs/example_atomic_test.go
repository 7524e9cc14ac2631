//go:build unix

package verbs_test

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/ibrun/ibrun/verbs"
)

// An atomic operation adds to a counter in memory of the peer, and returns its previous value. Not all devices have them, so this
// example runs where there is one that does, such as Soft-RoCE.
func ExampleQP_FetchAdd() {
	dev, err := verbs.Open("", verbs.Options{})
	check(err)
	defer dev.Close()
	pd, err := dev.AllocPD()
	check(err)
	channel, err := dev.CreateChannel()
	check(err)
	cq, err := dev.CreateCQ(16, channel)
	check(err)
	old, counter := make([]byte, 64), make([]byte, 64) // aligned to 8 bytes, as the runtime of Go does
	mr, err := pd.Register(old, verbs.LocalWrite)
	check(err)
	target, err := pd.Register(counter, verbs.LocalWrite|verbs.RemoteAtomic)
	check(err)
	a, err := pd.CreateQP(verbs.QPConfig{Type: verbs.RC, SendCQ: cq})
	check(err)
	b, err := pd.CreateQP(verbs.QPConfig{Type: verbs.RC, SendCQ: cq, Access: verbs.RemoteAtomic})
	check(err)
	addressOfA, err := a.Address()
	check(err)
	addressOfB, err := b.Address()
	check(err)
	check(a.Connect(addressOfB))
	check(b.Connect(addressOfA))

	binary.NativeEndian.PutUint64(counter, 40)
	check(a.FetchAdd(1, verbs.Signaled|verbs.RingDoorbell, target.Remote(0), 2, mr.SGE(0, 8)))

	completions := make([]verbs.WC, 1)
	_, err = cq.Wait(context.Background(), completions)
	check(err)
	check(completions[0].Err())
	fmt.Println(binary.NativeEndian.Uint64(old), binary.NativeEndian.Uint64(counter))
}
