package perfmem

import (
	"errors"
	"os"
	"os/exec"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/internal/shm"
	"github.com/ibrun/ibrun/perf"
)

// writesPage is the environment variable that makes this test binary a rank, which writes its page and is killed.
const writesPage = "IBRUN_LAUNCH_TEST_PAGE"

// TestPageAfterKill: what a rank has recorded can be read after it was killed, and pages that were never written are not an
// error.
func TestPageAfterKill(t *testing.T) {
	if text := os.Getenv(writesPage); text != "" {
		writePage(t, text)
	}
	p, err := New(3)
	if err != nil {
		t.Fatal(err)
	}
	rank := exec.Command("/proc/self/exe", "-test.run=^TestPageAfterKill$")
	rank.Env = append(os.Environ(), writesPage+"="+strconv.FormatInt(p.PageOf(1).Offset, 10))
	fd, err := unix.FcntlInt(p.FD(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	rank.ExtraFiles = []*os.File{os.NewFile(uintptr(fd), "pages")}
	defer rank.ExtraFiles[0].Close()
	if out, err := rank.CombinedOutput(); rank.ProcessState == nil || rank.ProcessState.Success() {
		t.Fatalf("the rank was to be killed: %v\n%s", err, out)
	}
	ranks := p.Records()
	if len(ranks) != 3 || ranks[0] != (Record{}) || ranks[1].Err != nil || ranks[2] != (Record{}) {
		t.Fatalf("%+v", ranks)
	}
	if s := ranks[1].Snapshot; s.Rank != 5 || s.State != perf.Running || s.Ops[0].Calls != 100 || len(s.Current) != 1 {
		t.Errorf("%+v", s)
	}
	p.mem[perf.PageBytes+8]++ // the version
	var version *perf.VersionError
	if ranks := p.Records(); !errors.As(ranks[1].Err, &version) || ranks[1].Snapshot != nil || ranks[0] != (Record{}) {
		t.Errorf("a page of another version: %+v", ranks)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

func writePage(t *testing.T, offset string) {
	seg, err := shm.Open(3)
	if err != nil {
		t.Fatal(err)
	}
	at, err := strconv.ParseInt(offset, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	memory, err := seg.Map(at, perf.PageBytes)
	if err != nil {
		t.Fatal(err)
	}
	r, err := perf.NewRecorder(memory, perf.Identity{Rank: 5, Size: 9, PID: os.Getpid()}, perf.On)
	if err != nil {
		t.Fatal(err)
	}
	for range 100 {
		r.End(perf.Send, 8, r.Begin(perf.Send, 8))
	}
	r.Enter(perf.Recv, 2, 3, 4)
	self, err := os.FindProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	t.Fatal(self.Kill())
}

func TestNoPages(t *testing.T) {
	var none *Memory
	if none.Records() != nil || none.PageOf(0) != nil || none.FD() != ^uintptr(0) || none.Close() != nil {
		t.Errorf("%v, %v", none.Records(), none.PageOf(0))
	}
}
