package pmi

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// eventLog collects events as lines. The events of one rank are in order.
type eventLog struct {
	mu    sync.Mutex
	lines []string
}

func (l *eventLog) add(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, fmt.Sprintf(format, args...))
}

func (l *eventLog) events() Events {
	return Events{
		Init:     func(rank int) { l.add("init %d", rank) },
		Finalize: func(rank int) { l.add("finalize %d", rank) },
		Abort:    func(rank, code int, msg string) { l.add("abort %d %d %q", rank, code, msg) },
		Lost:     func(rank int, inited bool) { l.add("lost %d %v", rank, inited) },
	}
}

func (l *eventLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.lines, ", ")
}

func newTestServer(t testing.TB, job Job) *Server {
	t.Helper()
	if job.KVSName == "" {
		job.KVSName = "job1"
	}
	s, err := NewServer(job)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// rank is a client that sends and receives single lines.
type rank struct {
	t    testing.TB
	conn net.Conn
	in   reader
	done chan error // what Serve returned
}

func serve(t testing.TB, s *Server, n int) *rank {
	ours, theirs := net.Pipe()
	r := &rank{t: t, conn: ours, in: reader{src: ours}, done: make(chan error, 1)}
	go func() { r.done <- s.Serve(n, theirs) }()
	t.Cleanup(func() { ours.Close() })
	return r
}

func (r *rank) send(text string) {
	r.t.Helper()
	if _, err := r.conn.Write([]byte(text)); err != nil {
		r.t.Fatalf("send %q: %v", text, err)
	}
}

// expect fails the test unless the next bytes are exactly want.
func (r *rank) expect(want string) {
	r.t.Helper()
	got := make([]byte, len(want))
	if n, err := io.ReadFull(r.conn, got); err != nil || string(got) != want {
		r.t.Fatalf("got %q, %v; want %q", got[:n], err, want)
	}
}

// call sends a line and expects an answer.
func (r *rank) call(line, answer string) {
	r.t.Helper()
	r.send(line)
	r.expect(answer)
}

func TestServerLines(t *testing.T) {
	var events eventLog
	s := newTestServer(t, Job{Size: 2, KVSName: "7.0", UniverseSize: 12, AppNums: []int{0, 3}, Events: events.events()})
	r0, r1 := serve(t, s, 0), serve(t, s, 1)
	r1.call("cmd=init pmi_version=1 pmi_subversion=1\n", "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=2\n")
	r1.call("cmd=get_maxes\n", "cmd=maxes rc=0 kvsname_max=256 keylen_max=64 vallen_max=1024\n")
	r1.call("cmd=get_universe_size\n", "cmd=universe_size rc=0 size=12\n")
	r1.call("cmd=get_appnum\n", "cmd=appnum rc=0 appnum=3\n")
	r1.call("cmd=get_my_kvsname\n", "cmd=my_kvsname rc=0 kvsname=7.0\n")
	r1.call("cmd=get kvsname=7.0 key=PMI_process_mapping\n", "cmd=get_result rc=0 value=(vector,(0,1,2))\n")
	r1.call("cmd=put kvsname=7.0 key=a1 value=two\\ words=\n", "cmd=put_result rc=0\n")
	r1.send("cmd=barrier_in\n")
	r0.call("cmd=init pmi_version=1 pmi_subversion=2\n", "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=2\n")
	r0.call("cmd=barrier_in\n", "cmd=barrier_out rc=0 tag=0\n")
	r1.expect("cmd=barrier_out rc=0 tag=0\n")
	r0.call("cmd=get kvsname=7.0 key=a1\n", "cmd=get_result rc=0 value=two\\ words=\n")
	r0.call("cmd=get key=a1\n", "cmd=get_result rc=0 value=two\\ words=\n")
	r0.call("cmd=get kvsname=7.0 key=a2\n", "cmd=get_result rc=-1 msg=key_not_found\n")
	r0.call("cmd=put kvsname=7.0 key=a1 value=v\n", "cmd=put_result rc=0\n")
	r0.call("cmd=get kvsname=7.0 key=a1\n", "cmd=get_result rc=0 value=v\n")
	r0.call("cmd=publish_name service=s port=p#1$\n", "cmd=publish_result rc=0 info=ok\n")
	r1.call("cmd=publish_name service=s port=q\n",
		"cmd=publish_result rc=-1 msg=name_is_taken_or_there_is_no_room_for_it info=fail\n")
	r1.call("cmd=lookup_name service=s\n", "cmd=lookup_result rc=0 info=ok port=p#1$\n")
	r1.call("cmd=unpublish_name service=s\n", "cmd=unpublish_result rc=0 info=ok\n")
	r1.call("cmd=unpublish_name service=s\n", "cmd=unpublish_result rc=-1 msg=name_not_found info=fail\n")
	r1.call("cmd=lookup_name service=s\n", "cmd=lookup_result rc=-1 msg=name_not_found info=fail\n")
	r1.call("cmd=lookup_name\n", "cmd=lookup_result rc=-1 msg=no_service_named info=fail\n")
	r0.call(spawnTwo, "cmd=spawn_result rc=-1 msg=this_launcher_starts_no_further_processes\n")
	r0.call("cmd=finalize\n", "cmd=finalize_ack rc=0\n")
	r0.conn.Close()
	if err := <-r0.done; err != nil {
		t.Error(err)
	}
	r1.call("cmd=finalize\n", "cmd=finalize_ack rc=0\n")
	// Newer versions of MPICH initialize again on the same connection.
	r1.call("cmd=init pmi_version=1 pmi_subversion=1\n", "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=2\n")
	r1.conn.Close()
	if err := <-r1.done; err != nil {
		t.Error(err)
	}
	if want := "init 1, init 0, finalize 0, finalize 1, init 1, lost 1 true"; events.String() != want {
		t.Errorf("events %s, want %s", &events, want)
	}
}

func TestServerInitAck(t *testing.T) {
	s := newTestServer(t, Job{Size: 3})
	serve(t, s, 2).call("cmd=initack pmiid=2\n", "cmd=initack rc=0\ncmd=set size=3\ncmd=set rank=2\ncmd=set debug=0\n")
	r := serve(t, s, 1)
	r.send("cmd=initack pmiid=2\n")
	if err := <-r.done; !errors.Is(err, ErrMalformed) {
		t.Errorf("another rank's id: %v", err)
	}
}

func TestServerRefuses(t *testing.T) {
	r := serve(t, newTestServer(t, Job{Size: 2, KVSName: "7.0"}), 0)
	long := strings.Repeat("x", 1023)
	for _, test := range []struct{ line, answer, why string }{
		{"init pmi_version=2 pmi_subversion=0", "response_to_init", "speaks_version_1 pmi_version=1 pmi_subversion=2"},
		{"put kvsname=8.0 key=a value=b", "put_result", "kvsname"},
		{"put kvsname=7.0 key=PMI_process_mapping value=b", "put_result", "reserved"},
		{"put kvsname=7.0 key=" + long[:64] + " value=b", "put_result", "key"},
		{"put kvsname=7.0 value=b", "put_result", "key"},
		{"put kvsname=7.0 key=a value=" + long + "x", "put_result", "value"},
		{"get kvsname=8.0 key=a", "get_result", "kvsname"},
		{"get", "get_result", "not_found"},
		{"barrier_in group=1:0", "barrier_out", "not_in_the_group"},
		{"barrier_in group=0,2:0", "barrier_out", "no_such_rank"},
		{"barrier_in group=0,x:0", "barrier_out", "no_such_rank"},
		{"barrier_in group=WORLD:x", "barrier_out", "tag"},
		{"barrier_in group=:1", "barrier_out", "no_such_rank"},
		{"publish_name service=s port=" + long, "publish_result", "room"},
	} {
		r.send("cmd=" + test.line + "\n")
		m, err := r.in.next()
		if err != nil || m.cmd != test.answer || m.get("rc") != "-1" || !strings.Contains(string(encodeArgs(m)), test.why) {
			t.Errorf("%.60s: %+v, %v; want %s about %s", test.line, m, err, test.answer, test.why)
		}
	}
	// The connection can still be used.
	r.send("cmd=put kvsname=7.0 key=" + long[:63] + " value=" + long + "\n")
	if m, err := r.in.next(); err != nil || m.get("rc") != "0" {
		t.Errorf("put at the limits: %+v, %v", m, err)
	}
}

func encodeArgs(m message) []byte {
	var words []string
	for _, a := range m.args {
		words = append(words, a.key, a.value)
	}
	return encode(m.cmd, words...)
}

func TestServerInvalidMessages(t *testing.T) {
	for name, text := range map[string]string{
		"no protocol":     "GET / HTTP/1.1\r\n",
		"unknown command": "cmd=init pmi_version=1 pmi_subversion=1\ncmd=reboot\n",
		"endless line":    "cmd=put value=" + strings.Repeat("x", maxMessage),
		"cut short":       "cmd=put val",
	} {
		var events eventLog
		s := newTestServer(t, Job{Size: 2, Events: events.events()})
		good, bad := serve(t, s, 0), serve(t, s, 1)
		good.send("cmd=barrier_in\n")
		go func() {
			for _, line := range strings.SplitAfter(text, "\n") {
				if _, err := bad.conn.Write([]byte(line)); err != nil {
					return // the server has closed the connection
				}
				if strings.Contains(line, "init") {
					io.ReadFull(bad.conn, make([]byte, len("cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=2\n")))
				}
			}
			bad.conn.Close()
		}()
		if err := <-bad.done; err == nil || !strings.Contains(err.Error(), "rank 1") {
			t.Errorf("%s: Serve returned %v", name, err)
		}
		if want := "lost 1 " + fmt.Sprint(name == "unknown command"); !strings.HasSuffix(events.String(), want) {
			t.Errorf("%s: events %q, want %q", name, &events, want)
		}
		good.call("cmd=get_appnum\n", "cmd=appnum rc=0 appnum=0\n")
	}
}

func TestServerEvents(t *testing.T) {
	for _, test := range []struct{ lines, want string }{
		{"", "lost 0 false"},
		{"cmd=init pmi_version=1 pmi_subversion=1\n", "init 0, lost 0 true"},
		{"cmd=init pmi_version=2 pmi_subversion=0\n", "lost 0 false"},
		{"cmd=finalize\n", "finalize 0"},
		{"cmd=abort exitcode=7 message=a\\ b\n", `abort 0 7 "a b"`},
		{"cmd=abort exitcode=-2\n", `abort 0 -2 ""`},
		{"cmd=abort\n", `abort 0 1 ""`},
		{"cmd=abort exitcode=x\n", `abort 0 1 ""`},
	} {
		var events eventLog
		r := serve(t, newTestServer(t, Job{Size: 1, Events: events.events()}), 0)
		r.send(test.lines)
		if !strings.HasPrefix(test.lines, "cmd=abort") && test.lines != "" {
			if _, err := r.in.next(); err != nil {
				t.Error(err)
			}
		}
		r.conn.Close()
		if err := <-r.done; err != nil {
			t.Errorf("%q: %v", test.lines, err)
		}
		if events.String() != test.want {
			t.Errorf("%q: events %s, want %s", test.lines, &events, test.want)
		}
	}
}

func TestServerGroupBarriers(t *testing.T) {
	s := newTestServer(t, Job{Size: 4, Mapping: "(vector,(0,2,2))"})
	var r []*rank
	for i := range 4 {
		r = append(r, serve(t, s, i))
	}
	// Several barriers of rank 0 at a time, as from different threads, and other commands at the same time.
	r[0].send("cmd=barrier_in group=3,0,0:5\n")
	r[0].send("cmd=barrier_in group=NODE:6\n")
	r[0].send("cmd=barrier_in\n")
	r[0].call("cmd=get_appnum\n", "cmd=appnum rc=0 appnum=0\n")
	r[1].call("cmd=barrier_in group=0,1:6\n", "cmd=barrier_out rc=0 tag=6\n") // the same group as NODE
	r[0].expect("cmd=barrier_out rc=0 tag=6\n")
	r[3].call("cmd=barrier_in group=0,3:5\n", "cmd=barrier_out rc=0 tag=5\n")
	r[0].expect("cmd=barrier_out rc=0 tag=5\n")
	r[0].call("cmd=barrier_in group=0\n", "cmd=barrier_out rc=0 tag=0\n")
	r[0].call("cmd=barrier_in\n", "cmd=barrier_out rc=-1 msg=this_rank_already_waits_in_this_barrier_or_in_too_many_others tag=0\n")
	r[1].send("cmd=barrier_in group=WORLD:0\n") // a group with a tag is another barrier than no group
	r[1].send("cmd=barrier_in\n")
	r[2].send("cmd=barrier_in\n")
	r[3].call("cmd=barrier_in\n", "cmd=barrier_out rc=0 tag=0\n")
	for i := range 3 {
		r[i].expect("cmd=barrier_out rc=0 tag=0\n")
	}
}

func TestServerBarrierOfLostRank(t *testing.T) {
	s := newTestServer(t, Job{Size: 2})
	r0, r1 := serve(t, s, 0), serve(t, s, 1)
	r0.send("cmd=barrier_in\n")
	r0.call("cmd=get_appnum\n", "cmd=appnum rc=0 appnum=0\n")
	r0.conn.Close()
	<-r0.done
	r1.send("cmd=barrier_in\n")
	r1.call("cmd=get_appnum\n", "cmd=appnum rc=0 appnum=0\n") // the next line is not barrier_out
	r1.conn.Close()
	<-r1.done
	if len(s.barriers) != 0 {
		t.Errorf("%d barriers are still stored", len(s.barriers))
	}
}

func TestServerDoesNotWaitForSlowReader(t *testing.T) {
	s := newTestServer(t, Job{Size: 2})
	slow, r := serve(t, s, 0), serve(t, s, 1)
	slow.send("cmd=barrier_in\n") // does not read the answer
	r.call("cmd=barrier_in\n", "cmd=barrier_out rc=0 tag=0\n")
	r.call("cmd=get_appnum\n", "cmd=appnum rc=0 appnum=0\n")
	slow.conn.Close()
	<-slow.done
}

// A rank that asks again and again, and reads no answer that others cause, loses its connection.
func TestServerEndsSlowReader(t *testing.T) {
	for _, line := range []string{"cmd=lookup_name service=s\n", "cmd=barrier_in group=WORLD:1\n"} {
		var s *Server
		s = newTestServer(t, Job{Size: 2, Mapping: "(vector,(0,2,1))", ToExchange: func(p *ExchangeMessage) {
			if err := s.Deliver(p); err != nil { // as if the other node had been waiting
				t.Error(err)
			}
		}})
		slow := serve(t, s, 0)
		sent := 0
		for ; sent < 10*maxUnsent; sent++ {
			if _, err := slow.conn.Write([]byte(line)); err != nil {
				break
			}
		}
		if err := <-slow.done; sent < maxUnsent || !errors.Is(err, ErrMalformed) || !strings.Contains(err.Error(), "rank 0") {
			t.Errorf("%s: Serve returned %v after %d lines", line, err, sent)
		}
	}
}

func TestServerMemoryIsBounded(t *testing.T) {
	s := newTestServer(t, Job{Size: 2})
	r := serve(t, s, 0)
	value := strings.Repeat("x", 1000)
	puts := 0
	for ; puts < 2000; puts++ {
		r.send(fmt.Sprintf("cmd=put key=k%d value=%s\n", puts, value))
		if m, err := r.in.next(); err != nil || m.get("rc") != "0" {
			break
		}
	}
	if puts < 900 || puts > 1000 {
		t.Errorf("%d puts of 1000 bytes fit", puts)
	}
	r.call("cmd=put key=k0 value=y\n", "cmd=put_result rc=0\n") // a shorter value frees bytes
	serve(t, s, 1).call("cmd=put key=k0 value=z\n", "cmd=put_result rc=0\n")
	if used := s.keys.used[1]; used != 64+3 {
		t.Errorf("rank 1 uses %d bytes", used)
	}
	for i := range maxBarriersPerRank {
		r.send(fmt.Sprintf("cmd=barrier_in group=WORLD:%d\n", i))
	}
	r.send("cmd=barrier_in group=WORLD:99\n")
	if m, err := r.in.next(); err != nil || m.get("rc") != "-1" || m.get("tag") != "99" {
		t.Errorf("one barrier too many: %+v, %v", m, err)
	}
}

// deadConn is the connection of a rank that has died: its commands can still be read, but answers cannot be written.
type deadConn struct{ io.Reader }

func (deadConn) Write([]byte) (int, error) { return 0, syscall.EPIPE }
func (deadConn) Close() error              { return nil }

// The commands that a rank sent before it died are processed, although the answers cannot be written.
func TestCommandsOfDeadRank(t *testing.T) {
	var events eventLog
	s := newTestServer(t, Job{Size: 1, Events: events.events()})
	commands := "cmd=init pmi_version=1 pmi_subversion=1\ncmd=barrier_in\ncmd=abort exitcode=7 message=x\n"
	if err := s.Serve(0, deadConn{strings.NewReader(commands)}); err != nil {
		t.Error(err)
	}
	if got, want := events.String(), `init 0, abort 0 7 "x"`; got != want {
		t.Errorf("events %s, want %s", got, want)
	}
}

func TestNewServerRefuses(t *testing.T) {
	for name, job := range map[string]Job{
		"no ranks":      {KVSName: "x"},
		"no name":       {Size: 1},
		"spaced name":   {Size: 1, KVSName: "a b"},
		"long name":     {Size: 1, KVSName: strings.Repeat("x", 256)},
		"programs":      {Size: 2, KVSName: "x", AppNums: []int{0}},
		"bad mapping":   {Size: 2, KVSName: "x", Mapping: "(vector)"},
		"endless nodes": {Size: 2, KVSName: "x", Mapping: "(vector" + strings.Repeat(",(0,1,1)", 200) + ")"},
	} {
		if _, err := NewServer(job); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	conn, _ := net.Pipe()
	if err := newTestServer(t, Job{Size: 2}).Serve(2, conn); err == nil {
		t.Error("rank 2 of 2: no error")
	}
	if _, err := conn.Write(nil); err == nil {
		t.Error("the connection of rank 2 of 2 was not closed")
	}
}

// FuzzServer lets a rank send arbitrary bytes.
func FuzzServer(f *testing.F) {
	f.Add([]byte("cmd=init pmi_version=1 pmi_subversion=1\ncmd=put key=a value=b\ncmd=barrier_in group=0:1\ncmd=finalize\n"))
	f.Add([]byte("cmd=barrier_in group=WORLD:1\ncmd=barrier_in group=NODE\ncmd=barrier_in\ncmd=barrier_in\n"))
	f.Add([]byte("cmd=publish_name service=a port=b\ncmd=lookup_name service=a\ncmd=unpublish_name service=a\n" + spawnTwo))
	f.Add([]byte("cmd=initack pmiid=0\ncmd=get key=PMI_process_mapping\ncmd=abort exitcode=1 message=\\\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		s := newTestServer(t, Job{Size: 2, Events: Events{
			Init: func(int) {}, Finalize: func(int) {}, Abort: func(int, int, string) {}, Lost: func(int, bool) {}}})
		r := &recorder{}
		r.Reset(text)
		served := s.Serve(0, r)
		if len(s.barriers) != 0 {
			t.Errorf("%d barriers are still stored", len(s.barriers))
		}
		answers := reader{src: &r.wrote}
		for {
			if _, err := answers.next(); err == io.EOF {
				break
			} else if err != nil {
				t.Fatalf("the server wrote an invalid message: %v; Serve returned %v", err, served)
			}
		}
		serve(t, s, 1).call("cmd=get key=PMI_process_mapping\n", "cmd=get_result rc=0 value=(vector,(0,1,2))\n")
	})
}
