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

// echoVariable has the test program be the other node, and says through which provider.
const echoVariable = "VERBSTEST_ECHO"

// ends is what nodes tell each other: an RC and a UD pair, and memory that may be used in all ways.
type ends struct {
	RC, UD []byte
	Memory verbs.Remote
}

// Two nodes exchange everything that there is over the wire, then one of them dies.
func TestLivePeer(t *testing.T) {
	if provider := os.Getenv(echoVariable); provider != "" {
		echo(t, openLive(live.Device(t), provider))
		return
	}
	nodes := live.Nodes(t, 2)
	for _, p := range [][2]string{{"rxe", "rxe"}, {"rxe", "libibverbs"}, {"libibverbs", "rxe"}, {"libibverbs", "libibverbs"}} {
		t.Run(p[0]+" to "+p[1], func(t *testing.T) { talk(t, openLive(live.Device(t), p[0]), nodes[1], p[1]) })
	}
}

// patient are parameters for a wire between guests that may wait for a processor: a peer is given up after two seconds.
func patient() verbs.Params {
	p := verbs.DefaultParams()
	p.Timeout = 16
	return p
}

const (
	parts = 8
	part  = bufferSize / parts
)

// echo sends everything back, until it is killed.
func echo(t *testing.T, open Open) {
	r := newFixture(t, open)
	cq := must(r.ctx.CreateCQ(64, must(r.ctx.CreateChannel())(t)))(t)
	rc, ud := r.newEndpoint(verbs.QPConfig{SendCQ: cq}), r.newDatagramEndpoint(verbs.QPConfig{SendCQ: cq})
	_, mr := r.region(bufferSize, 1)
	peerRC, peerUD, _ := hear(t, os.Stdin)
	if err := rc.ConnectWith(peerRC, patient()); err != nil {
		t.Fatal(err)
	}
	back := must(ud.Dest(peerUD))(t)
	const datagram, sent = 1 << 8, 1 << 9 // in numbers of requests, beside that of the part of memory
	recv := func(id uint64) error {
		if id&datagram != 0 {
			return ud.Recv(id, ud.mr.SGE(int(id%parts)*part, part))
		}
		return rc.Recv(id, rc.mr.SGE(int(id)*part, part))
	}
	for i := range uint64(parts) {
		if err := recv(i); err != nil {
			t.Fatal(err)
		}
		if err := recv(i | datagram); err != nil {
			t.Fatal(err)
		}
	}
	tell(t, os.Stdout, rc, ud, mr)
	for {
		n, err := cq.Wait(context.Background(), r.wcs[:])
		if err != nil {
			t.Fatal(err)
		}
		for _, wc := range r.wcs[:n] {
			off := int(wc.ID%parts) * part
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

func tell(t *testing.T, to io.Writer, rc, ud *endpoint, mr *verbs.MR) {
	t.Helper()
	e := ends{RC: must(rc.address().MarshalBinary())(t), UD: must(ud.address().MarshalBinary())(t), Memory: mr.Remote(0)}
	if err := json.NewEncoder(to).Encode(e); err != nil {
		t.Fatal(err)
	}
}

func hear(t *testing.T, from io.Reader) (rc, ud verbs.Address, at verbs.Remote) {
	t.Helper()
	var e ends
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

func talk(t *testing.T, open Open, node live.Node, provider string) {
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
	tell(t, in, rc, ud, rc.mr)
	peerRC, peerUD, at := hear(t, out)
	if err := rc.ConnectWith(peerRC, patient()); err != nil {
		t.Fatal(err)
	}
	const half = bufferSize / 2
	for i, n := range []int{0, 1, 1000, 3 * r.port.ActiveMTU.Bytes(), part} {
		into := rc.postRecv(rc.mr.SGE(half, part))
		r.awaitSuccess(rc.postAndRing(verbs.Request{Op: verbs.OpSend, SGE: sgeList(rc.mr, i, n)}))
		if wc := r.awaitSuccess(into); int(wc.Len) != n {
			t.Fatalf("%d bytes were sent, and %d came back", n, wc.Len)
		}
		checkBytes(t, "a SEND that came back", rc.buf[half:half+n], rc.buf[i:i+n])
	}
	r.awaitSuccess(rc.postAndRing(verbs.Request{Op: verbs.OpWrite, SGE: sgeList(rc.mr, 0, half), Remote: at}))
	r.awaitSuccess(rc.postAndRing(verbs.Request{Op: verbs.OpRead, SGE: sgeList(rc.mr, half, half), Remote: at}))
	checkBytes(t, "what was written and read back", rc.buf[half:], rc.buf[:half])
	first := binary.NativeEndian.Uint64(rc.buf)
	for i := range uint64(3) {
		r.awaitSuccess(rc.postAndRing(verbs.Request{Op: verbs.OpFetchAdd, SGE: sgeList(rc.mr, half, 8), Remote: at, Compare: 7}))
		if was := binary.NativeEndian.Uint64(rc.buf[half:]); was != first+7*i {
			t.Fatalf("addition %d has found %#x, not %#x", i, was, first+7*i)
		}
	}
	r.talkDatagrams(ud, peerUD)

	kill()
	id := rc.postAndRing(verbs.Request{Op: verbs.OpSend, SGE: sgeList(rc.mr, 0, 8)})
	for r.await(id).Status == verbs.StatusSuccess { // over there it may take its time to die
		id = rc.postAndRing(verbs.Request{Op: verbs.OpSend, SGE: sgeList(rc.mr, 0, 8)})
	}
	// Its pair may fail over there before it is gone, and says so.
	r.awaitFailure(rc, id, verbs.StatusRetryExceeded, verbs.StatusRemoteOperation)
	r.checkFailed(rc)
	r.drain()
}

// talkDatagrams sends datagrams, each until it comes back: any may be lost.
func (r *fixture) talkDatagrams(ud *endpoint, peer verbs.Address) {
	r.t.Helper()
	to := must(ud.Dest(peer))(r.t)
	for i, n := range []int{1, 100, r.port.ActiveMTU.Bytes()} {
		into := ud.postRecv(ud.mr.SGE(part, part))
		for !r.tracker.isCompleted(into) {
			if n := len(r.tracker.completed); n > 1000 {
				r.t.Fatalf("no datagram of %d has come back", n)
			}
			r.awaitSuccess(ud.postAndRing(verbs.Request{Op: verbs.OpSend, To: to, SGE: sgeList(ud.mr, i, n)}))
			for end := time.Now().Add(time.Second); !r.tracker.isCompleted(into) && time.Now().Before(end); {
				r.poll()
			}
		}
		if wc := r.awaitSuccess(into); int(wc.Len) != grhLen+n || wc.SrcQP != peer.QPN {
			r.t.Fatalf("a datagram of %d bytes from queue pair %#x: %+v", n, peer.QPN, wc)
		}
		checkBytes(r.t, "a datagram that came back", ud.buf[part+grhLen:][:n], ud.buf[i:i+n])
	}
}
