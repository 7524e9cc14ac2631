package output

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// testOutput is an output to one file, with a pipe for each of n ranks.
type testOutput struct {
	out   *Merger
	pipes []*os.File // the writing ends
	all   []*Origin
	t     *testing.T
	shown *os.File
}

func newTestOutput(t *testing.T, n int, labelled, alone bool) *testOutput {
	t.Helper()
	shown, err := os.Create(filepath.Join(t.TempDir(), "shown"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { shown.Close() })
	v := &testOutput{t: t, shown: shown, out: New(shown, shown, alone)}
	for rank := range n {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		s := &Source{Origin: NewRank(rank, "h", labelled), Pipe: r, Writer: v.out.Stdout}
		v.out.Forward(s, func(err error) { t.Errorf("rank %d: %v", rank, err) })
		v.pipes, v.all = append(v.pipes, w), append(v.all, s.Origin)
	}
	return v
}

func (v *testOutput) write(rank int, text string) {
	v.t.Helper()
	if _, err := v.pipes[rank].WriteString(text); err != nil {
		v.t.Fatal(err)
	}
}

// end closes the pipes and returns everything that was written.
func (v *testOutput) end() string {
	v.t.Helper()
	for _, p := range v.pipes {
		p.Close()
	}
	v.out.Wait()
	text, err := os.ReadFile(v.shown.Name())
	if err != nil {
		v.t.Fatal(err)
	}
	return string(text)
}

func TestLinesStayWhole(t *testing.T) {
	const ranks, lines = 4, 200
	v := newTestOutput(t, ranks, false, false)
	v.out.Stdout.lineTimeout = time.Hour // on a busy machine too
	done := make(chan bool)
	for rank := range ranks {
		go func() {
			defer func() { done <- true }()
			letter := string(rune('a' + rank))
			for i := range lines {
				line := strings.Repeat(letter, 1+i*i*7%5000)
				if i%50 == 49 {
					line = strings.Repeat(letter, 5*maxLine+i) // longer than the buffer
				}
				half := len(line) / 2
				io.WriteString(v.pipes[rank], line[:half])
				io.WriteString(v.pipes[rank], line[half:]+"\n")
			}
		}()
	}
	for range ranks {
		<-done
	}
	text := v.end()
	count := 0
	for line := range strings.Lines(text) {
		count++
		if line = strings.TrimSuffix(line, "\n"); strings.Trim(line, line[:1]) != "" {
			t.Fatalf("a line of %d bytes contains output of two ranks: %.20q...", len(line), strings.TrimLeft(line, line[:1]))
		}
	}
	if count != ranks*lines {
		t.Errorf("%d lines were written, %d were forwarded", ranks*lines, count)
	}
}

func TestLabels(t *testing.T) {
	v := newTestOutput(t, 2, true, false)
	v.write(0, "one\ntwo\n\nthr")
	v.write(0, "ee\n")
	if got, want := v.end(), "[0] one\n[0] two\n[0] \n[0] three\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A line that was forwarded in part and is never finished does not block the other ranks.
func TestUnfinishedLineIsBroken(t *testing.T) {
	v := newTestOutput(t, 2, true, false)
	long := strings.Repeat("x", maxLine)
	v.write(0, long)
	waitFor(t, v, long)
	v.write(1, "other\n")
	waitFor(t, v, "other")
	v.write(0, "rest\n")
	if got, want := v.end(), "[0] "+long+"\n[1] other\n[0] rest\n"; got != want {
		t.Errorf("got ...%q, want ...%q", got[len(got)-40:], want[len(want)-40:])
	}
}

// waitFor waits until text was forwarded, without a limit.
func waitFor(t *testing.T, v *testOutput, text string) {
	t.Helper()
	for {
		shown, err := os.ReadFile(v.shown.Name())
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(shown, []byte(text)) {
			return
		}
	}
}

func TestOutputOfOneRankIsUnchanged(t *testing.T) {
	v := newTestOutput(t, 1, false, true)
	v.write(0, "name? ")
	waitFor(t, v, "name? ") // a question is forwarded without waiting for its newline
	binary := "\x00\xff\n\r\n" + strings.Repeat("\x01", 3*maxLine)
	v.write(0, binary)
	if got, want := v.end(), "name? "+binary; got != want {
		t.Errorf("%d of %d bytes were forwarded, or others", len(got), len(want))
	}
}

func TestTail(t *testing.T) {
	v := NewRank(0, "h", false)
	for i := range 500 {
		v.appendTail(fmt.Appendf(nil, "line %d\n", i), false)
	}
	v.appendTail(nil, false)
	v.appendTail([]byte("panic: on standard output is no panic\nend"), false)
	got := v.LastLines()
	if lines := strings.Split(got, "\n"); len(lines) != tailLines || lines[0] != "line 487" || lines[tailLines-1] != "end" {
		t.Errorf("kept %q", got)
	}
	v.appendTail(bytes.Repeat([]byte("x"), 2*tailBytes), false)
	if got := v.LastLines(); got != strings.Repeat("x", tailBytes) {
		t.Errorf("%d bytes of a long line are kept, want %d", len(got), tailBytes)
	}
}

func TestTailOfPanic(t *testing.T) {
	v := NewRank(0, "h", false)
	v.appendTail([]byte("before\npanic: here\n"), true)
	for range 1000 {
		v.appendTail([]byte("\tstack\n"), true)
	}
	if got, want := v.LastLines(), "panic: here\n"+strings.Repeat("\tstack\n", tailLines-1); got != want {
		t.Errorf("got %q, want the beginning of the panic", got)
	}
}

// When no process reads the output any more, the rank's own write returns an error. The rank does not block for ever. The
// reason is reported before, while the rank can still write: that error may kill it.
func TestClosedReader(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	out := New(w, w, true)
	src, dst, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	failed := make(chan error, 1)
	out.Forward(&Source{Origin: NewRank(0, "h", false), Pipe: src, Writer: out.Stdout}, func(err error) {
		if _, err := dst.WriteString("unread\n"); err != nil {
			t.Errorf("a write before the report returned %v", err)
		}
		failed <- err
	})
	if _, err := dst.WriteString("hello\n"); err != nil {
		t.Fatal(err)
	}
	if err := <-failed; !errors.Is(err, unix.EPIPE) {
		t.Errorf("forward failed with %v, want EPIPE", err)
	}
	out.Wait()
	if _, err := dst.WriteString("again\n"); !errors.Is(err, unix.EPIPE) {
		t.Errorf("the next write returned %v, want EPIPE", err)
	}
}

// No output is lost when another process of the same terminal makes it non-blocking.
func TestNonBlocking(t *testing.T) {
	var fds [2]int
	if err := unix.Pipe(fds[:]); err != nil {
		t.Fatal(err)
	}
	r, w := os.NewFile(uintptr(fds[0]), "reader"), os.NewFile(uintptr(fds[1]), "terminal")
	defer r.Close()
	out := New(w, w, true)
	if err := unix.SetNonblock(fds[1], true); err != nil {
		t.Fatal(err)
	}
	src, dst, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	out.Forward(&Source{Origin: NewRank(0, "h", false), Pipe: src, Writer: out.Stdout},
		func(err error) { t.Errorf("forward failed: %v", err) })
	want := bytes.Repeat([]byte("0123456789abcde\n"), 64<<10) // more than pipes can hold
	go func() {
		if _, err := dst.Write(want); err != nil {
			t.Error(err)
		}
		dst.Close()
		out.Wait()
		w.Close()
	}()
	if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d of %d bytes were forwarded, or others: %v", len(got), len(want), err)
	}
}

func TestFileNames(t *testing.T) {
	if got := ExpandFileName("out/%h-%r.100%%", 12, "n1"); got != "out/n1-12.100%" {
		t.Errorf("got %q", got)
	}
}

// The last lines of a rank are shown if they are among the last lines of the stream, whoever has written the others.
func TestShown(t *testing.T) {
	out, other := newWriter(nil), newWriter(nil)
	a, b := NewRank(0, "h", true), NewRank(1, "h", true)
	write := func(w *Writer, r *Origin, text string, within bool) {
		r.appendTail([]byte(text), true)
		s := Source{Origin: r}
		w.wrote(r, s.addLabels([]byte(text), within), within)
	}
	want := func(what string, w *Writer, r *Origin, span int) {
		t.Helper()
		if got := r.ShownIn(w); got != span {
			t.Errorf("%s: the last lines are in the last %d bytes, want %d", what, got, span)
		}
	}
	want("nothing was written", out, a, 0)
	write(out, a, "one\ntw", false)
	write(out, a, "o\n", true)
	want("at the end", out, a, len("[0] one\n[0] two\n"))
	write(out, b, "three\n", false)
	want("before another line", out, a, len("[0] one\n[0] two\n[1] three\n"))
	want("the last line", out, b, len("[1] three\n"))
	want("another stream", other, a, 0)
	write(out, b, strings.Repeat("x\n", tailLines-3), false)
	want("just in the last lines", out, a, len("[0] one\n[0] two\n[1] three\n")+(tailLines-3)*len("[1] x\n"))
	write(out, b, "x\n", false)
	want("partly before the last lines", out, a, 0)
	write(other, b, "elsewhere\n", false)
	want("partly in another stream", out, b, 0)
	write(out, a, "panic: here\n"+strings.Repeat("\tstack\n", tailLines-1), false)
	want("a short panic", out, a, len("[0] panic: here\n")+(tailLines-1)*len("[0] \tstack\n"))
	write(out, a, "\tstack\n", false)
	want("a long panic", out, a, 0)
}
