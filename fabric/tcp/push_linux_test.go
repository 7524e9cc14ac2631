package tcp

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/internal/soaktest"
	"github.com/ibrun/ibrun/internal/waittest"
)

// pusher sends messages, each with pushed memory. The message says where the memory is.
type pusher struct {
	r      *rand.Rand
	d      *Domain
	ep     fabric.Endpoint
	memory []byte
	region fabric.Region
	sent   int
}

// send sends the next message: with all of its memory pushed, with the beginning of it, or without.
func (p *pusher) send(t *testing.T, most int) {
	from := 0 // often the same, with other lengths
	if p.r.IntN(2) == 0 {
		from = p.r.IntN(len(p.memory))
	}
	n := p.r.IntN(min(1<<p.r.IntN(22), len(p.memory)-from, most) + 1)
	src := p.region.Remote
	src.Addr += uint64(from)
	header := binary.LittleEndian.AppendUint64(nil, uint64(p.sent))
	header = request{src: src, bytes: uint64(n)}.append(header)
	var err error
	if p.r.IntN(4) == 0 {
		err = p.ep.Send(header, nil)
	} else {
		err = p.ep.(fabric.Pusher).Push(header, src, n)
	}
	if err == nil {
		p.sent++
	} else if err != fabric.ErrAgain {
		t.Fatal(err)
	}
}

// receiver reads the memory that messages name: immediately or later, all of it or less, or never.
type receiver struct {
	r      *rand.Rand
	d      *Domain
	ep     fabric.Endpoint
	theirs []byte // the sender's memory
	memory []byte
	region fabric.Region
	got    int
	later  []request
	want   []byte // of the Read in progress
	into   []byte
	reads  int
}

func (k *receiver) read(t *testing.T, q request) {
	if k.want != nil {
		k.later = append(k.later, q)
		return
	}
	n := int(q.bytes)
	if k.r.IntN(3) == 0 {
		n = k.r.IntN(n + 1)
	}
	k.want, k.into = k.theirs[q.src.Addr:][:n], k.memory[:n]
	clear(k.into)
	k.reads++
	done, err := k.ep.Read(k.into, k.region, q.src, uint64(k.reads))
	if err != nil {
		t.Fatal(err)
	}
	if done {
		k.check(t)
	}
}

func (k *receiver) check(t *testing.T) {
	if !bytes.Equal(k.into, k.want) {
		t.Fatalf("read %d: wrong bytes, of %d", k.reads, len(k.want))
	}
	k.want = nil
}

func (k *receiver) poll(t *testing.T) {
	var evs [3]fabric.Event
	n, err := k.d.Poll(evs[:k.r.IntN(len(evs)+1)])
	if err != nil {
		t.Fatal(err)
	}
	for _, ev := range evs[:n] {
		switch ev.Kind {
		case fabric.Message:
			q, ok := parseRequest(ev.Data[8:])
			if i := int(binary.LittleEndian.Uint64(ev.Data)); !ok || i != k.got {
				t.Fatalf("message %d arrived, want %d", i, k.got)
			}
			k.got++
			switch k.r.IntN(4) {
			case 0:
				k.later = append(k.later, q)
			case 1: // never read it
			default:
				k.read(t, q)
			}
		case fabric.Done:
			if ev.Err != nil || ev.Token != uint64(k.reads) || k.want == nil {
				t.Fatalf("%+v for read %d", ev, k.reads)
			}
			k.check(t)
		default:
			t.Fatalf("%+v", ev)
		}
	}
	if k.want == nil && len(k.later) > 0 {
		q := k.later[0]
		k.later = k.later[1:]
		k.read(t, q)
	}
}

// TestPush: whatever is pushed with messages, and whatever the receiver does with it, messages arrive in order, and a Read
// returns the bytes that it names.
func TestPush(t *testing.T) {
	seed := soaktest.Seed(t)
	for _, c := range []struct{ window, push int }{{0, 0}, {0, 200 << 10}, {0, 1000}, {64 << 10, 0}, {64 << 10, 100 << 10}} {
		r := rand.New(rand.NewPCG(seed, 1))
		tr := &Transport{Interfaces: []string{"127.0.0.1/32"}, Linger: waittest.Limit, Eager: 1, Push: c.push,
			socketBuffer: c.window}
		ds := openDomains(t, tr, 2)
		p := pusher{r: r, d: ds[0], ep: connectTo(t, ds[0], 1, ds[1].Addr()), memory: make([]byte, 3<<20)}
		for i := range p.memory {
			p.memory[i] = byte(r.Uint32())
		}
		k := receiver{r: r, d: ds[1], ep: connectTo(t, ds[1], 0, ds[0].Addr()), theirs: p.memory, memory: make([]byte, len(p.memory))}
		var err1, err2 error
		p.region, err1 = p.d.Register(p.memory)
		k.region, err2 = k.d.Register(k.memory)
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		pushes, most := 2000, len(p.memory)
		if c.window > 0 {
			pushes, most = 300, 400<<10
		}
		var evs [4]fabric.Event
		state := func() string { return fmt.Sprintf("%d of %d messages, %d wait", k.got, p.sent, len(k.later)) }
		pollUntilDone(t, "all messages arrive", state, func() bool {
			if r.IntN(3) == 0 && p.sent < pushes {
				p.send(t, most)
			}
			if n, err := p.d.Poll(evs[:]); n != 0 || err != nil {
				t.Fatalf("%d events at the sender, %+v, %v", n, evs[0], err)
			}
			k.poll(t)
			return k.got == pushes && k.want == nil && len(k.later) == 0
		})
	}
}

// TestPushDropped: pushed memory that was not read before the program polls again is dropped. The sender is notified and pushes
// nothing for a while. A Read still gets the memory.
func TestPushDropped(t *testing.T) {
	ds, es := connectedPair(t, 0)
	region, err := ds[0].Register([]byte("what is pushed"))
	if err != nil {
		t.Fatal(err)
	}
	in := make([]byte, len("what is pushed"))
	local, err := ds[1].Register(in)
	if err != nil {
		t.Fatal(err)
	}
	sender := es[0].(*endpoint)
	push := func() (ev fabric.Event) {
		if err := sender.Push([]byte("push"), region.Remote, len(in)); err != nil {
			t.Fatal(err)
		}
		stopProgress(ds[1])
		for ev.Kind == 0 {
			ev = pollOne(t, ds[1])
		}
		return ev
	}
	if ev := push(); string(ev.Data) != "push" {
		t.Fatalf("%+v", ev)
	}
	holdOff := func() int {
		ds[0].mu.Lock()
		defer ds[0].mu.Unlock()
		return sender.reading.pushes.holdOff
	}
	waittest.Poll(t, "the sender pushes nothing", func() bool {
		if ev := pollOne(t, ds[0]); ev.Kind != 0 {
			t.Fatalf("%+v; pushes again after %d messages", ev, holdOff())
		}
		if ev := pollOne(t, ds[1]); ev.Kind != 0 {
			t.Fatalf("%+v", ev)
		}
		return holdOff() == holdOffMessages
	})
	for i := range holdOffMessages {
		push()
		if holdOff() != holdOffMessages-i-1 {
			t.Fatalf("message %d after the dropped push has a push, too", i)
		}
	}
	if done, err := es[1].Read(in, local, region.Remote, 7); done || err != nil {
		t.Fatalf("the memory that was dropped is there: %v, %v", done, err)
	}
	var ev fabric.Event
	for ev.Kind == 0 {
		pollOne(t, ds[0])
		ev = pollOne(t, ds[1])
	}
	if ev.Kind != fabric.Done || ev.Token != 7 || ev.Err != nil || string(in) != "what is pushed" {
		t.Fatalf("%+v, %q", ev, in)
	}
	clear(in)
	push()
	if done, err := es[1].Read(in, local, region.Remote, 8); !done || err != nil || string(in) != "what is pushed" {
		t.Fatalf("%q is there: %v, %v", in, done, err)
	}
}

// connectedPair opens two peers that have exchanged messages.
func connectedPair(t *testing.T, window int) (ds []*Domain, es [2]fabric.Endpoint) {
	tr := &Transport{Interfaces: []string{"127.0.0.1/32"}, Linger: waittest.Limit, socketBuffer: window}
	ds = openDomains(t, tr, 2)
	es = [2]fabric.Endpoint{connectTo(t, ds[0], 1, ds[1].Addr()), connectTo(t, ds[1], 0, ds[0].Addr())}
	exchange(t, [2]*Domain{ds[0], ds[1]}, es, rand.New(rand.NewPCG(5, 6)), "connected")
	return ds, es
}

// stopProgress stops the timer that polls in place of the program, which drops pushed memory that the program does not read soon.
func stopProgress(d *Domain) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.progress.stop()
}

// pollOne polls for one event.
func pollOne(t *testing.T, d *Domain) fabric.Event {
	var evs [1]fabric.Event
	if _, err := d.Poll(evs[:]); err != nil {
		t.Fatal(err)
	}
	return evs[0]
}

// TestPushFragmented: wherever the network splits the stream, and however much of it is read, pushed memory arrives, the rest of
// a longer Read arrives behind it, and so does the next message. It reads one length after each split, and with IBRUN_SOAK=1 all.
func TestPushFragmented(t *testing.T) {
	const text, rest = "twelve bytes", " and more"
	src := fabric.RemoteKey{Addr: 3, Key: 4}
	q := request{src, uint64(len(text)), addSum(0, []byte(text))}
	more := request{src: src, bytes: uint64(len(rest))}
	more.src.Addr += uint64(len(text))
	stream := append(joinFrames(kindMessage, "push", kindPush, string(q.append(nil))), text...)
	next := joinFrames(kindMessage, "next")
	asked, answer := joinFrames(kindRead, string(more.append(nil))), joinFrames(kindData, rest[:2], kindData, rest[2:])
	found := 0
	for cut := range stream {
		all := []int{cut % len(text), len(text), len(text + rest)}
		for _, want := range soaktest.Choose(all, all[cut%len(all):][:1]) {
			d, at := openTarget(t)
			c, _, _ := authenticate(t, d, at, 1)
			in := make([]byte, want+1)
			local, err := d.Register(in)
			if err != nil {
				t.Fatal(err)
			}
			stopProgress(d) // it would drop what is here, if it is not read soon
			e := d.peers[1]
			wait := func() fabric.Event { return pollUntil(t, d, func() bool { return false }) }
			write(t, c, stream[:cut])
			ev := pollUntil(t, d, locked(d, func() bool { return e.in.filled-e.in.delivered == cut })) // the first part was received
			write(t, c, stream[cut:])
			if ev.Kind == 0 {
				ev = wait()
			}
			if string(ev.Data) != "push" {
				t.Fatalf("cut at %d: %+v", cut, ev)
			}
			here := locked(d, func() bool { return e.reading.pushes.arrived })() // otherwise the Read would send a request
			go func() {
				if got := make([]byte, len(asked)); here && want > len(text) {
					_, err := io.ReadFull(c, got)
					if !bytes.Equal(got[:4], asked[:4]) || !bytes.Equal(got[headerBytes:], asked[headerBytes:]) || err != nil {
						t.Errorf("cut at %d: request %x, want %x: %v", cut, got, asked, err)
					}
					_, _ = c.Write(answer)
				}
				_, _ = c.Write(next)
			}()
			if here {
				found++
				done, err := e.Read(in[:want], local, src, 5)
				if err != nil {
					t.Fatal(err)
				}
				if !done {
					if ev := wait(); ev.Kind != fabric.Done || ev.Token != 5 || ev.Err != nil {
						t.Fatalf("cut at %d, %d wanted: %+v", cut, want, ev)
					}
				}
				if string(in[:want]) != (text + rest)[:want] || in[want] != 0 {
					t.Fatalf("cut at %d, %d wanted: %q", cut, want, in)
				}
			}
			if ev := wait(); string(ev.Data) != "next" {
				t.Fatalf("cut at %d, %d wanted: %+v", cut, want, ev)
			}
			if err := errors.Join(c.Close(), d.Close()); err != nil {
				t.Fatal(err)
			}
		}
	}
	if found < len(text) { // the cuts behind
		t.Errorf("found what was pushed %d times", found)
	}
}

// TestPushLost: if a peer closes the connection in the middle of a push, the Read ends once, and PeerDown follows.
func TestPushLost(t *testing.T) {
	src := fabric.RemoteKey{Key: 1}
	const more = PushBytes + 1 // than is pushed
	for _, x := range []struct{ n, want int }{
		{0, PushBytes}, {1, PushBytes}, {300 << 10, PushBytes}, {0, more}, {1, more}, {300 << 10, more}, {PushBytes, more},
	} {
		n := x.n
		d, at := openTarget(t)
		c, _, _ := authenticate(t, d, at, 1)
		stopProgress(d) // it would drop what was pushed, if it is not read soon
		in := make([]byte, x.want)
		local, err := d.Register(in)
		if err != nil {
			t.Fatal(err)
		}
		write(t, c, joinFrames(kindMessage, "push", kindPush, string(request{src: src, bytes: PushBytes}.append(nil))))
		if ev := pollUntil(t, d, func() bool { return false }); string(ev.Data) != "push" {
			t.Fatalf("%+v", ev)
		}
		if done, err := d.peers[1].Read(in, local, src, 9); done || err != nil {
			t.Fatal(done, err)
		}
		go func(c net.Conn) {
			if x.want == more { // if it stayed unread, the kernel would drop what is written
				_, _ = io.ReadFull(c, make([]byte, headerBytes+requestBytes))
			}
			_, _ = c.Write(make([]byte, n))
			_ = c.Close()
		}(c)
		ev := pollUntil(t, d, func() bool { return false })
		if ev.Kind != fabric.Done || ev.Token != 9 || !errors.Is(ev.Err, fabric.ErrPeerDown) {
			t.Errorf("after %d bytes: %+v", n, ev)
		}
		if ev := pollUntil(t, d, func() bool { return false }); ev.Kind != fabric.PeerDown {
			t.Errorf("after %d bytes: %+v", n, ev)
		}
	}
}

// TestPushShorter: a push is only the beginning of a longer Read that begins at the same address.
func TestPushShorter(t *testing.T) {
	ds, es := connectedPair(t, 0)
	stopProgress(ds[1])
	theirs, in := bytes.Repeat([]byte{7}, 2*PushBytes), make([]byte, 2*PushBytes)
	far, err1 := ds[0].Register(theirs)
	near, err2 := ds[1].Register(in)
	pusher := es[0].(fabric.Pusher)
	err := errors.Join(err1, err2, es[0].Send([]byte("long"), nil), pusher.Push([]byte("short"), far.Remote, 1000))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"long", "short"} {
		var ev fabric.Event
		for ev.Kind == 0 {
			ev = pollOne(t, ds[1])
		}
		if string(ev.Data) != want {
			t.Fatalf("%+v", ev)
		}
	}
	if arrived := locked(ds[1], func() bool { return es[1].(*endpoint).reading.pushes.arrived }); !arrived() {
		t.Fatal("nothing was pushed")
	}
	done, err := es[1].Read(in, near, far.Remote, 1)
	if done || err != nil {
		t.Fatal(done, err)
	}
	var ev fabric.Event
	waittest.Poll(t, "the Read ends", func() bool {
		pollOne(t, ds[0])
		ev = pollOne(t, ds[1])
		return ev.Kind != 0
	})
	if ev.Kind != fabric.Done || ev.Err != nil || !bytes.Equal(in, theirs) {
		t.Fatalf("%+v", ev)
	}
}

// TestPushReleased: if the peer has read only the beginning of a push, the memory may be unmapped before all of it has been sent.
// What is sent afterwards arrives.
func TestPushReleased(t *testing.T) {
	ds, es := connectedPair(t, 64<<10)
	stopProgress(ds[1])
	mem, err := unix.Mmap(-1, 0, PushBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	far, err := ds[0].Register(mem)
	if err == nil {
		err = es[0].(fabric.Pusher).Push([]byte("push"), far.Remote, len(mem))
	}
	if err != nil {
		t.Fatal(err)
	}
	var ev fabric.Event
	for ev.Kind == 0 {
		ev = pollOne(t, ds[1])
	}
	in := make([]byte, 10)
	near, err := ds[1].Register(in)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := es[1].Read(in, near, far.Remote, 1); err != nil {
		t.Fatal(err)
	}
	ds[0].mu.Lock()
	unsent := len(es[0].(*endpoint).out.body)
	ds[0].mu.Unlock()
	if unsent == 0 {
		t.Fatal("all of it was sent immediately")
	}
	if err := errors.Join(ds[0].Deregister(far), unix.Munmap(mem)); err != nil {
		t.Fatal(err)
	}
	for err = es[0].Send([]byte("next"), nil); err == fabric.ErrAgain; err = es[0].Send([]byte("next"), nil) {
		pollOne(t, ds[0])
		pollOne(t, ds[1])
	}
	for ev = (fabric.Event{}); ev.Kind == 0 && err == nil; {
		if ev = pollOne(t, ds[0]); ev.Kind == 0 {
			ev = pollOne(t, ds[1])
		}
		if ev.Kind == fabric.Done { // after all has arrived and the checksum matches
			ev = fabric.Event{}
		}
	}
	if string(ev.Data) != "next" || err != nil {
		t.Fatalf("%+v, %v", ev, err)
	}
}

// TestPushWithoutPoll: a program that does not poll blocks no other peer: what was pushed to it is dropped, and what follows is
// handled.
func TestPushWithoutPoll(t *testing.T) {
	ds, es := connectedPair(t, 0)
	mine, theirs := make([]byte, PushBytes), bytes.Repeat([]byte{9}, PushBytes)
	near, err1 := ds[0].Register(mine)
	far, err2 := ds[1].Register(theirs)
	if err := errors.Join(err1, err2, es[0].(fabric.Pusher).Push([]byte("push"), near.Remote, len(mine))); err != nil {
		t.Fatal(err)
	}
	if done, err := es[0].Read(mine, near, far.Remote, 1); done || err != nil {
		t.Fatal(done, err)
	}
	ev := pollUntil(t, ds[0], func() bool { return false })
	if ev.Kind != fabric.Done || ev.Err != nil || !bytes.Equal(mine, theirs) {
		t.Fatalf("%+v", ev)
	}
	if ev := pollOne(t, ds[1]); string(ev.Data) != "push" {
		t.Fatalf("%+v", ev)
	}
}

// TestReadUnmapped: if a peer reads memory that was unmapped in spite of its registration, that is an error at both, with
// checksums and without. Such memory is not pushed, and that is not an error.
func TestReadUnmapped(t *testing.T) {
	for _, checked := range []bool{true, false} {
		ds := openDomains(t, &Transport{Interfaces: []string{"127.0.0.1/32"}, checkLocal: checked}, 2)
		es := [2]fabric.Endpoint{connectTo(t, ds[0], 1, ds[1].Addr()), connectTo(t, ds[1], 0, ds[0].Addr())}
		exchange(t, [2]*Domain{ds[0], ds[1]}, es, rand.New(rand.NewPCG(5, 6)), "connected")
		gone := unmapped(t, 1<<20)
		far, err := ds[0].Register(gone)
		if err == nil {
			err = es[0].(fabric.Pusher).Push([]byte("not pushed"), far.Remote, len(gone))
		}
		in := make([]byte, len(gone))
		near, err2 := ds[1].Register(in)
		if err := errors.Join(err, err2); err != nil {
			t.Fatal(err)
		}
		if ev := pollUntil(t, ds[1], func() bool { return false }); string(ev.Data) != "not pushed" {
			t.Fatalf("%+v", ev)
		}
		if done, err := es[1].Read(in, near, far.Remote, 1); done || err != nil {
			t.Fatal(done, err)
		}
		for i, want := range []fabric.EventKind{fabric.PeerDown, fabric.Done} {
			var ev fabric.Event
			for ev.Kind == 0 {
				ev = pollOne(t, ds[i])
				if other := pollOne(t, ds[1-i]); ev.Kind == 0 && other.Kind != 0 {
					t.Fatalf("peer %d: %+v", 1-i, other)
				}
			}
			if ev.Kind != want || !errors.Is(ev.Err, fabric.ErrPeerDown) || i == 0 && !errors.Is(ev.Err, unix.EFAULT) {
				t.Errorf("peer %d: %+v", i, ev)
			}
		}
	}
}

// TestChangedMemory: memory whose checksum does not match completes no Read, whether it was requested or pushed, and whether it
// arrives at once or in parts.
func TestChangedMemory(t *testing.T) {
	const text = "twelve bytes"
	src := fabric.RemoteKey{Addr: 3, Key: 4}
	var data [headerBytes]byte
	for _, wrong := range []uint32{0, 1} {
		sum := addSum(0, []byte(text)) ^ wrong
		frame{kind: kindData, length: len(text), sum: sum}.put(data[:], true)
		push := joinFrames(kindPush, string(request{src, uint64(len(text)), sum}.append(nil)))
		for _, cut := range []int{0, 5} {
			for name, header := range map[string][]byte{"read": data[:], "push": push} {
				d, at := openTarget(t)
				c, _, _ := authenticate(t, d, at, 1)
				in := make([]byte, len(text))
				local, err := d.Register(in)
				if err != nil {
					t.Fatal(err)
				}
				first := append(bytes.Clone(header), text[:len(text)-cut]...)
				if name == "push" {
					stopProgress(d)
					write(t, c, append(joinFrames(kindMessage, "push"), first...))
					pollUntil(t, d, func() bool { return false })
				}
				e := d.peers[1]
				done, err := e.Read(in, local, src, 5)
				if err != nil {
					t.Fatal(err)
				}
				if name == "read" {
					write(t, c, first)
				}
				if cut > 0 {
					pollUntil(t, d, locked(d, func() bool { return len(e.reading.memory.into) == cut }))
					write(t, c, []byte(text[len(text)-cut:]))
				}
				var ev fabric.Event
				if !done {
					ev = pollUntil(t, d, locked(d, func() bool { return d.stats.mismatches > 0 }))
				}
				complete := done || ev.Kind == fabric.Done && ev.Err == nil
				_, changed := d.Reconnects()
				if complete != (wrong == 0) || complete && string(in) != text || changed != uint64(wrong) {
					t.Errorf("%s, cut at %d, sum changed by %d: complete %v, %+v, %q, %d mismatches", name, cut, wrong, complete, ev,
						in, changed)
				}
			}
		}
	}
}
