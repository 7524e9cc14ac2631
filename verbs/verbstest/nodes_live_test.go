//go:build linux

package verbstest

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"io"
	"os"
	"testing"
	"time"

	"github.com/ibrun/ibrun/soft-roce/live"
	"github.com/ibrun/ibrun/verbs"
)

// echoVariable makes the test program the other node. Its value is the name of the provider.
const echoVariable = "VERBSTEST_ECHO"

// peerInfo is exchanged by the nodes: addresses of an RC and a UD queue pair, and memory with all access rights.
type peerInfo struct {
	RC, UD []byte
	Memory verbs.Remote
}

// Two nodes execute all operations over the wire, then one of them is killed.
func TestLivePeer(t *testing.T) {
	if provider := os.Getenv(echoVariable); provider != "" {
		echo(t, openLive(live.Device(t), provider))
		return
	}
	nodes := live.Nodes(t, 2)
	for _, p := range [][2]string{{"rxe", "rxe"}, {"rxe", "libibverbs"}, {"libibverbs", "rxe"}, {"libibverbs", "libibverbs"}} {
		t.Run(p[0]+" to "+p[1], func(t *testing.T) { exchangeWithNode(t, openLive(live.Device(t), p[0]), nodes[1], p[1]) })
	}
}

// slowWireParams returns parameters for guests that may wait for a processor: requests fail after two seconds without an answer.
func slowWireParams() verbs.Params {
	p := verbs.DefaultParams()
	p.Timeout = 16
	return p
}

const (
	slots    = 8
	slotSize = bufferSize / slots
)

// echo sends every message back, until it is killed.
func echo(t *testing.T, open Open) {
	r := newFixture(t, open)
	cq := must(r.ctx.CreateCQ(64, must(r.ctx.CreateChannel())(t)))(t)
	rc, ud := r.newEndpoint(verbs.QPConfig{SendCQ: cq}), r.newDatagramEndpoint(verbs.QPConfig{SendCQ: cq})
	_, mr := r.region(bufferSize, 1)
	peerRC, peerUD, _ := receivePeerInfo(t, os.Stdin)
	if err := rc.ConnectWith(peerRC, slowWireParams()); err != nil {
		t.Fatal(err)
	}
	back := must(ud.Dest(peerUD))(t)
	const datagram, sent = 1 << 8, 1 << 9 // bits of request numbers; the low bits are the number of the slot
	recv := func(id uint64) error {
		if id&datagram != 0 {
			return ud.Recv(id, ud.mr.SGE(int(id%slots)*slotSize, slotSize))
		}
		return rc.Recv(id, rc.mr.SGE(int(id)*slotSize, slotSize))
	}
	for i := range uint64(slots) {
		if err := recv(i); err != nil {
			t.Fatal(err)
		}
		if err := recv(i | datagram); err != nil {
			t.Fatal(err)
		}
	}
	sendPeerInfo(t, os.Stdout, rc, ud, mr)
	for {
		n, err := cq.Wait(context.Background(), r.wcs[:])
		if err != nil {
			t.Fatal(err)
		}
		for _, wc := range r.wcs[:n] {
			off := int(wc.ID%slots) * slotSize
			switch {
			case wc.Err() != nil:
				t.Fatal(wc.Err())
			case wc.ID&sent != 0:
				err = recv(wc.ID &^ sent)
			case wc.ID&datagram != 0:
				err = ud.SendTo(wc.ID|sent, verbs.Signaled, back, ud.mr.SGE(off+grhLen, int(wc.Len)-grhLen))
			default:
				err = rc.Send(wc.ID|sent, verbs.Signaled, rc.mr.SGE(off, int(wc.Len)))
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		rc.ringDoorbell()
		ud.ringDoorbell()
	}
}

func sendPeerInfo(t *testing.T, to io.Writer, rc, ud *endpoint, mr *verbs.MR) {
	t.Helper()
	e := peerInfo{RC: must(rc.address().MarshalBinary())(t), UD: must(ud.address().MarshalBinary())(t), Memory: mr.Remote(0)}
	if err := json.NewEncoder(to).Encode(e); err != nil {
		t.Fatal(err)
	}
}

func receivePeerInfo(t *testing.T, from io.Reader) (rc, ud verbs.Address, at verbs.Remote) {
	t.Helper()
	var e peerInfo
	if err := json.NewDecoder(from).Decode(&e); err != nil {
		t.Fatal(err)
	}
	if err := rc.UnmarshalBinary(e.RC); err != nil {
		t.Fatal(err)
	}
	if err := ud.UnmarshalBinary(e.UD); err != nil {
		t.Fatal(err)
	}
	return rc, ud, e.Memory
}

func exchangeWithNode(t *testing.T, open Open, node live.Node, provider string) {
	r := newFixture(t, open)
	rc, ud := r.newEndpoint(verbs.QPConfig{}), r.newDatagramEndpoint(verbs.QPConfig{})
	cmd := node.Command("env", echoVariable+"="+provider, must(os.Executable())(t), "-test.run=^TestLivePeer$")
	cmd.Stderr = os.Stderr
	in, out := must(cmd.StdinPipe())(t), must(cmd.StdoutPipe())(t)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill := func() {
		cmd.Process.Kill()
		cmd.Wait()
	}
	t.Cleanup(kill)
	sendPeerInfo(t, in, rc, ud, rc.mr)
	peerRC, peerUD, at := receivePeerInfo(t, out)
	if err := rc.ConnectWith(peerRC, slowWireParams()); err != nil {
		t.Fatal(err)
	}
	const half = bufferSize / 2
	for i, n := range []int{0, 1, 1000, 3 * r.port.ActiveMTU.Bytes(), slotSize} {
		into := rc.postRecv(rc.mr.SGE(half, slotSize))
		r.awaitSuccess(rc.postAndRing(verbs.Request{Op: verbs.OpSend, SGE: sgeList(rc.mr, i, n)}))
		if wc := r.awaitSuccess(into); int(wc.Len) != n {
			t.Fatalf("%d bytes were sent, and %d came back", n, wc.Len)
		}
		checkBytes(t, "a SEND that came back", rc.buf[half:half+n], rc.buf[i:i+n])
	}
	r.awaitSuccess(rc.postAndRing(verbs.Request{Op: verbs.OpWrite, SGE: sgeList(rc.mr, 0, half), Remote: at}))
	r.awaitSuccess(rc.postAndRing(verbs.Request{Op: verbs.OpRead, SGE: sgeList(rc.mr, half, half), Remote: at}))
	checkBytes(t, "the bytes that were written and read back", rc.buf[half:], rc.buf[:half])
	first := binary.NativeEndian.Uint64(rc.buf)
	for i := range uint64(3) {
		r.awaitSuccess(rc.postAndRing(verbs.Request{Op: verbs.OpFetchAdd, SGE: sgeList(rc.mr, half, 8), Remote: at, Compare: 7}))
		if was := binary.NativeEndian.Uint64(rc.buf[half:]); was != first+7*i {
			t.Fatalf("addition %d returned %#x, not %#x", i, was, first+7*i)
		}
	}
	r.exchangeDatagrams(ud, peerUD)

	kill()
	id := rc.postAndRing(verbs.Request{Op: verbs.OpSend, SGE: sgeList(rc.mr, 0, 8)})
	for r.await(id).Status == verbs.StatusSuccess { // the remote process may end later
		id = rc.postAndRing(verbs.Request{Op: verbs.OpSend, SGE: sgeList(rc.mr, 0, 8)})
	}
	// The remote queue pair may fail before it is destroyed, and then reports an error.
	r.awaitFailure(rc, id, verbs.StatusRetryExceeded, verbs.StatusRemoteOperation)
	r.checkFailed(rc)
	r.drain()
}

// exchangeDatagrams sends each datagram until it comes back, because any may be lost.
func (r *fixture) exchangeDatagrams(ud *endpoint, peer verbs.Address) {
	r.t.Helper()
	to := must(ud.Dest(peer))(r.t)
	for i, n := range []int{1, 100, r.port.ActiveMTU.Bytes()} {
		into := ud.postRecv(ud.mr.SGE(slotSize, slotSize))
		for !r.tracker.isCompleted(into) {
			if n := len(r.tracker.completed); n > 1000 {
				r.t.Fatalf("none of %d datagrams came back", n)
			}
			r.awaitSuccess(ud.postAndRing(verbs.Request{Op: verbs.OpSend, To: to, SGE: sgeList(ud.mr, i, n)}))
			for end := time.Now().Add(time.Second); !r.tracker.isCompleted(into) && time.Now().Before(end); {
				r.poll()
			}
		}
		if wc := r.awaitSuccess(into); int(wc.Len) != grhLen+n || wc.SrcQP != peer.QPN {
			r.t.Fatalf("a datagram of %d bytes from queue pair %#x: %+v", n, peer.QPN, wc)
		}
		checkBytes(r.t, "a datagram that came back", ud.buf[slotSize+grhLen:][:n], ud.buf[i:i+n])
	}
}
