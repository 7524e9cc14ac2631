package ranklink

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/internal/fdpass/fdpasstest"
)

// actAsRank names the environment variable that makes this test binary a rank instead.
const actAsRank = "IBRUN_RANKLINK_TEST_RANK"

func TestMain(m *testing.M) {
	if os.Getenv(actAsRank) != "" {
		if err := runRank(); err != nil {
			os.Stderr.WriteString(err.Error() + "\n")
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func runRank() error {
	link, info, err := FromEnv(os.Getenv)
	if err != nil {
		return err
	}
	if !reflect.DeepEqual(info, testRankInfo()) {
		return errors.New("RankInfo was damaged")
	}
	fd, _ := strconv.Atoi(os.Getenv("IBRUN_FD"))
	if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
		return errors.New("the descriptor is not closed on exec")
	}
	return errors.Join(link.Send(KindStarted, nil), link.Send(KindNote, Note{Text: "hello"}), link.Send(KindFinalized, nil))
}

// pair returns both ends. The end of the rank is opened with FromEnv after RankInfo was sent.
func pair(t *testing.T) (agent, rank *Link) {
	t.Helper()
	agent, end, err := Pair()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { agent.Close() })
	if err := agent.Send(KindRankInfo, testRankInfo()); err != nil {
		t.Fatal(err)
	}
	rank, _, err = FromEnv(inherit(t, end))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { rank.Close() })
	return agent, rank
}

// inherit simulates exec: it closes the original file and passes a descriptor number in the environment.
func inherit(t *testing.T, end *os.File) (getenv func(string) string) {
	t.Helper()
	fd, err := unix.Dup(int(end.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	end.Close()
	return envFD(strconv.Itoa(fd))
}

func envFD(value string) func(string) string {
	return func(name string) string { return map[string]string{"IBRUN_FD": value}[name] }
}

func TestRankProcess(t *testing.T) {
	agent, end, err := Pair()
	if err != nil {
		t.Fatal(err)
	}
	defer agent.Close()
	if err := agent.Send(KindRankInfo, testRankInfo()); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), actAsRank+"=1", "IBRUN_FD=3")
	cmd.ExtraFiles = []*os.File{end}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	end.Close()
	for _, want := range []Kind{KindStarted, KindNote, KindFinalized} {
		m, err := agent.Recv(t.Context())
		if err != nil || m.Kind != want {
			t.Fatalf("%+v, %v; want kind %d", m, err, want)
		}
		var note Note
		if want == KindNote && (m.Decode(&note) != nil || note.Text != "hello") {
			t.Errorf("note %+v", note)
		}
	}
	if _, err := agent.Recv(t.Context()); err != io.EOF {
		t.Errorf("after the rank has ended: %v, want EOF", err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

func TestFromEnvAbsent(t *testing.T) {
	if link, info, err := FromEnv(envFD("")); link != nil || info != nil || err != nil {
		t.Errorf("%v, %v, %v; want nothing", link, info, err)
	}
}

func TestFromEnvErrors(t *testing.T) {
	for _, value := range []string{"x", "-1", "999999", "2"} {
		if link, info, err := FromEnv(envFD(value)); err == nil || !strings.Contains(err.Error(), "IBRUN_FD") {
			t.Errorf("IBRUN_FD=%s: %v, %v, %v", value, link, info, err)
		}
	}
	for name, test := range map[string]struct {
		send func(*Link) error
		want error
	}{
		"agent closed":       {func(*Link) error { return nil }, io.EOF},
		"other kind":         {func(l *Link) error { return l.Send(KindNote, Note{Text: "x"}) }, ErrMalformed},
		"no body":            {func(l *Link) error { return l.Send(KindRankInfo, nil) }, ErrMalformed},
		"node without ranks": {func(l *Link) error { return l.Send(KindRankInfo, RankInfo{Size: 1}) }, ErrMalformed},
		"taken":              {func(l *Link) error { return l.Send(KindLeft, nil) }, ErrTaken},
		"another version":    {func(l *Link) error { _, err := l.file.WriteString("\x01\x02{}"); return err }, ErrVersion},
		"another's socket":   {func(l *Link) error { return l.Send(KindSocket, nil) }, ErrTaken},
		"not JSON":           {func(l *Link) error { _, err := l.file.WriteString("\x01\x01}"); return err }, ErrMalformed},
	} {
		agent, end, err := Pair()
		if err != nil {
			t.Fatal(err)
		}
		if err := test.send(agent); err != nil {
			t.Fatal(err)
		}
		agent.Close()
		if link, info, err := FromEnv(inherit(t, end)); !errors.Is(err, test.want) {
			t.Errorf("%s: %v, %v, %v; want %v", name, link, info, err, test.want)
		}
	}
}

// TestFirstMessageTaken: a second program of a rank does not wait for the message that the first has received.
func TestFirstMessageTaken(t *testing.T) {
	agent, end, err := Pair()
	if err != nil {
		t.Fatal(err)
	}
	defer agent.Close() // its end is open, so that a read would wait
	defer end.Close()
	if err := agent.Send(KindRankInfo, testRankInfo()); err != nil {
		t.Fatal(err)
	}
	if _, _, err := receivePacket(int(end.Fd())); err != nil {
		t.Fatal(err)
	}
	if _, _, err := FromEnv(inherit(t, end)); !errors.Is(err, ErrTaken) {
		t.Errorf("%v, want %v", err, ErrTaken)
	}
}

// TestOtherVersionAtOnce: whatever the first packet is, a program that does not know it returns an error that says why, and does
// not wait for another packet from an ibrun that keeps its end open.
func TestOtherVersionAtOnce(t *testing.T) {
	for packet, want := range map[string]error{
		"\x01\x02{}": ErrVersion, "\x63\x02{}": ErrVersion, "\x07\x02{}": ErrVersion, "\x63\x01{}": ErrMalformed,
	} {
		agent, end, err := Pair()
		if err != nil {
			t.Fatal(err)
		}
		defer agent.Close()
		if _, err := agent.file.WriteString(packet); err != nil {
			t.Fatal(err)
		}
		_, _, err = FromEnv(inherit(t, end))
		if !errors.Is(err, want) {
			t.Errorf("%q: %v, want %v", packet, err, want)
		}
		if want == ErrVersion && !strings.Contains(err.Error(), "version 2, and this program version 1") {
			t.Errorf("%q: the error does not name both versions: %v", packet, err)
		}
	}
}

func TestRecvUnknownAndMalformed(t *testing.T) {
	agent, rank := pair(t)
	for _, packet := range []string{"\x99\x01{}", "\x02\x09", "\x04\x01{", "x", strings.Repeat("x", MaxPacket+1), "\x03\x01"} {
		if _, err := rank.file.WriteString(packet); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 { // not JSON, too short, too long
		if m, err := agent.Recv(t.Context()); !errors.Is(err, ErrMalformed) {
			t.Errorf("%+v, %v; want %v", m, err, ErrMalformed)
		}
	}
	if m, err := agent.Recv(t.Context()); err != nil || m.Kind != KindFinalized {
		t.Errorf("%+v, %v; want kind %d", m, err, KindFinalized)
	}
}

func TestLargestPacket(t *testing.T) {
	agent, rank := pair(t)
	text := strings.Repeat("x", MaxPacket-headerBytes-len(`{"Text":""}`))
	if err := rank.Send(KindNote, Note{Text: text}); err != nil {
		t.Fatal(err)
	}
	var note Note
	if m, err := agent.Recv(t.Context()); err != nil || m.Decode(&note) != nil || note.Text != text {
		t.Errorf("note of %d bytes, %v", len(note.Text), err)
	}
	if err := rank.Send(KindNote, Note{Text: text + "x"}); err == nil {
		t.Error("one byte more: no error")
	}
}

func TestConcurrentSend(t *testing.T) {
	agent, rank := pair(t)
	const senders, each = 8, 100
	var all sync.WaitGroup
	for i := range senders {
		all.Go(func() {
			for range each {
				if err := rank.Send(KindNote, Note{Text: strings.Repeat(strconv.Itoa(i), 1000)}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for range senders * each { // more than a socket buffers: senders wait for the receiver
		m, err := agent.Recv(t.Context())
		var note Note
		if err != nil || m.Decode(&note) != nil || note.Text != strings.Repeat(note.Text[:1], 1000) {
			t.Fatalf("%+v, %v", m, err)
		}
	}
	all.Wait()
}

func TestRecvCancel(t *testing.T) {
	agent, rank := pair(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("job is over")
	go func() {
		runtime.Gosched()
		cancel(why)
	}()
	if _, err := agent.Recv(ctx); !errors.Is(err, why) {
		t.Errorf("got %v, want %v", err, why)
	}
	if err := agent.Send(KindNote, Note{}); !errors.Is(err, os.ErrClosed) {
		t.Errorf("send after a cancelled receive: %v", err)
	}
	if _, err := rank.Recv(t.Context()); err != io.EOF {
		t.Errorf("other end: %v, want EOF", err)
	}
}

func TestRankThatNeverReads(t *testing.T) {
	agent, end, err := Pair()
	if err != nil {
		t.Fatal(err)
	}
	defer agent.Close()
	if err := agent.Send(KindRankInfo, testRankInfo()); err != nil {
		t.Fatal(err)
	}
	if _, err := end.Write(mustEncode(t, KindStarted, nil)); err != nil {
		t.Fatal(err)
	}
	end.Close()
	if m, err := agent.Recv(t.Context()); err != nil || m.Kind != KindStarted {
		t.Errorf("%+v, %v; want kind %d", m, err, KindStarted)
	}
	if _, err := agent.Recv(t.Context()); err != io.EOF {
		t.Errorf("got %v, want EOF", err)
	}
}

// After Shutdown the packets that have arrived are received, and then io.EOF, although the other end is open. A Recv that waits
// returns io.EOF as well, and a Send that waits an error.
func TestShutdown(t *testing.T) {
	agent, rank := pair(t)
	if err := rank.Send(KindNote, Note{Text: "last message"}); err != nil {
		t.Fatal(err)
	}
	if err := agent.Shutdown(); err != nil {
		t.Fatal(err)
	}
	var note Note
	m, err := agent.Recv(t.Context())
	if err = errors.Join(err, m.Decode(&note)); err != nil || note.Text != "last message" {
		t.Errorf("received %q, %v", note.Text, err)
	}
	if _, err := agent.Recv(t.Context()); err != io.EOF {
		t.Errorf("after the last message: %v", err)
	}
	agent, _ = pair(t)
	ended := make(chan error)
	go func() {
		_, err := agent.Recv(context.Background())
		ended <- err
	}()
	if err := agent.Shutdown(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != io.EOF {
		t.Errorf("a Recv that waited returned %v", err)
	}
	agent, _ = pair(t)
	fill(t, agent)
	go func() { ended <- agent.Send(KindLeft, Left{}) }()
	if err := agent.Shutdown(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, unix.EPIPE) {
		t.Errorf("a Send that waited returned %v", err)
	}
}

// fill sends messages until the other end has to receive first.
func fill(t *testing.T, l *Link) (count int) {
	t.Helper()
	for {
		sent, err := l.TrySend(KindLeft, Left{Ranks: []int{1}})
		if err != nil {
			t.Fatal(err)
		}
		if !sent {
			return count
		}
		count++
	}
}

// TrySend returns although the other end does not receive, and although a Send waits for it.
func TestTrySend(t *testing.T) {
	agent, rank := pair(t)
	count := fill(t, agent)
	waits := make(chan error)
	go func() { waits <- agent.Send(KindLeft, Left{Ranks: []int{2}}) }()
	for range count {
		if sent, err := agent.TrySend(KindLeft, Left{Ranks: []int{3}}); sent || err != nil {
			t.Fatalf("sent %v, %v", sent, err)
		}
	}
	for last := 0; last != 2; {
		var left Left
		m, err := rank.Recv(t.Context())
		if err := errors.Join(err, m.Decode(&left)); err != nil {
			t.Fatal(err)
		}
		last = left.Ranks[0]
	}
	if err := <-waits; err != nil {
		t.Error(err)
	}
	if sent, err := agent.TrySend(KindLeft, Left{}); !sent || err != nil {
		t.Errorf("sent %v, %v, to an end that has received all", sent, err)
	}
	rank.Close()
	if sent, err := agent.TrySend(KindLeft, Left{}); sent || err == nil {
		t.Errorf("sent %v, %v, to an end that is closed", sent, err)
	}
}

func TestCloseEndsRecv(t *testing.T) {
	agent, _ := pair(t)
	done := make(chan error)
	go func() {
		_, err := agent.Recv(t.Context())
		done <- err
	}()
	agent.Close()
	if err := <-done; !errors.Is(err, os.ErrClosed) {
		t.Errorf("got %v, want %v", err, os.ErrClosed)
	}
}

// TestSendFilesRefused: while the kernel refuses to pass descriptors, SendFiles tries again, and gives up in the end.
func TestSendFilesRefused(t *testing.T) {
	agent, rank := pair(t)
	free := fdpasstest.Exhaust(t)
	pauses := 0
	err := agent.sendFiles(KindSocket, LocalRank{1}, []int{0}, func() { pauses++ })
	if !errors.Is(err, unix.ETOOMANYREFS) || pauses != maxRefused {
		t.Errorf("%v after %d pauses", err, pauses)
	}
	if err := agent.sendFiles(KindSocket, LocalRank{2}, []int{0}, free); err != nil {
		t.Fatal(err)
	}
	m, err := rank.Recv(t.Context())
	if err != nil || m.Kind != KindSocket || len(m.Files) != 1 {
		t.Errorf("%+v, %v", m, err)
	}
	m.Discard()
}

// TestLastMessage: the last message of a rank is received although the rank ends at the moment at which the agent looks.
func TestLastMessage(t *testing.T) {
	const rounds = 5_000
	packet, err := encode(KindNote, Note{Text: "last message"})
	if err != nil {
		t.Fatal(err)
	}
	ranks, sent := make(chan *os.File), make(chan error, 1)
	go func() {
		for rank := range ranks {
			_, err := rank.Write(packet)
			sent <- errors.Join(err, rank.Close())
		}
	}()
	defer close(ranks)
	for range rounds {
		agent, rank, err := Pair()
		if err != nil {
			t.Fatal(err)
		}
		conn, err := agent.file.SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		ranks <- rank
		var got []byte
		errControl := conn.Control(func(fd uintptr) { // Read would sleep, and look when the rank has ended
			err = unix.EAGAIN
			for polls := 1; err == unix.EAGAIN; polls++ {
				got, _, err = receivePacket(int(fd))
				if polls%500 == 0 {
					runtime.Gosched() // to the rank, if there is one processor
				}
			}
		})
		err = errors.Join(errControl, err)
		if err := errors.Join(err, <-sent); err != nil || len(got) != len(packet) {
			t.Fatalf("%d bytes, %v", len(got), err)
		}
		agent.Close()
	}
}
