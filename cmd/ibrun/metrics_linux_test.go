package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/inspect"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/report"
	"github.com/ibrun/ibrun/internal/ranklink"
	"github.com/ibrun/ibrun/internal/shm"
	"github.com/ibrun/ibrun/internal/soaktest"
	"github.com/ibrun/ibrun/internal/waittest"
	"github.com/ibrun/ibrun/mpi"
	"github.com/ibrun/ibrun/perf"
)

// record writes the page of a rank that has sent a hundred messages of eight bytes, and sleeps. With "newer" the page has
// another version. With "leave" the rank exits.
func record(how []string) error {
	_, hello, err := ranklink.FromEnv(os.Getenv)
	if err != nil {
		return err
	}
	if hello == nil || hello.Page == nil {
		return errors.New("ibrun has given no page")
	}
	seg, err := shm.Open(hello.Page.FD)
	if err != nil {
		return err
	}
	memory, err := seg.Map(hello.Page.Offset, hello.Page.Bytes)
	if err != nil {
		return err
	}
	r, err := perf.NewRecorder(memory, perf.Identity{Rank: hello.Rank, Size: hello.Size, PID: os.Getpid()}, perf.On)
	if err != nil {
		return err
	}
	for range 100 {
		r.End(perf.Send, 8, r.Begin(perf.Send, 8))
	}
	if slices.Contains(how, "newer") {
		binary.NativeEndian.PutUint64(memory[8:], perf.Version+1)
	}
	fmt.Println("ready", os.Getpid())
	if slices.Contains(how, "leave") {
		return nil
	}
	select {}
}

// scrape returns the metrics of a job, from the address that ibrun has printed.
func (p *process) scrape() string {
	p.t.Helper()
	text, err := get(p.metricsAt())
	if err != nil {
		p.t.Fatal(err)
	}
	return text
}

// metricsAt returns the address of the metrics.
func (p *process) metricsAt() string {
	p.t.Helper()
	var at []string
	p.eventually("no address is printed", func() bool { // a rank may have printed that it is ready before
		at = regexp.MustCompile(`metrics are at (\S+)\n`).FindStringSubmatch(p.stderrText())
		return at != nil
	})
	return at[1]
}

// jobLabels are the labels of every series.
var jobLabels = regexp.MustCompile(`ibrun_job="[^"]+",ibrun_node="[^"]+",?`)

// get returns the page at an address, without the labels that all series have.
func get(at string) (string, error) {
	q, err := http.NewRequest(http.MethodGet, at, nil)
	if err != nil {
		return "", err
	}
	return getBy(q)
}

// getSlowly is get by a Prometheus that waits for a response for five minutes. After two such scrapes the metrics stay for ten
// minutes after the end of the job.
func getSlowly(at string) (string, error) {
	q, err := http.NewRequest(http.MethodGet, at, nil)
	if err != nil {
		return "", err
	}
	q.Header.Set("X-Prometheus-Scrape-Timeout-Seconds", "300")
	return getBy(q)
}

// getBy is get by this request.
func getBy(q *http.Request) (string, error) {
	r, err := http.DefaultClient.Do(q)
	if err != nil {
		return "", err
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	return strings.ReplaceAll(jobLabels.ReplaceAllString(string(text), ""), "{}", ""), err
}

// TestMetrics: what ranks have recorded is served while they run, even if one of them is stopped.
func TestMetrics(t *testing.T) {
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	discovery := filepath.Join(dir, host+".json")
	p := startJob(t, 3, "-n", "3", "--metrics", ":0", "--metrics-sd", filepath.Join(dir, "%h.json"), "rank", "record")
	p.signal(p.pids[1], syscall.SIGSTOP)
	text := p.scrape()
	for _, want := range []string{`ibrun_ranks{state="running"} 3`, `ibrun_calls_total{op="Send"} 300`,
		`ibrun_operation_seconds_count{op="Send",size="64"} `} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
	if _, err := os.Stat(discovery); err != nil {
		t.Error(err)
	}
	p.wantOnlyLines()
	p.signal(p.pids[1], syscall.SIGCONT)
	p.signal(p.cmd.Process.Pid, syscall.SIGINT)
	p.wait()
	if _, err := os.Stat(discovery); !os.IsNotExist(err) {
		t.Errorf("the discovery file is still there: %v", err)
	}
}

// TestMetricsInUse: if the address for metrics is in use, the job runs without them, and ibrun prints that once.
func TestMetricsInUse(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	p := startJob(t, 2, "-n", "2", "--metrics", l.Addr().String(), "rank", "record", "leave")
	p.wantCode(0, "address already in use")
	p.wantOnlyLines("no metrics of this job: listen")
}

// TestReadWhileExiting: ranks that exit or are killed while their pages are read do not disturb the reader, and the outcome of
// the job does not change. Their records remain.
func TestReadWhileExiting(t *testing.T) {
	socketDir(t)
	p := startJob(t, 4, "-n", "2", "--metrics", ":0", "rank", "record", ":", "-n", "2", "rank", "record", "leave")
	const allThere = `ibrun_calls_total{op="Send"} 400` + "\n"
	p.eventually("two ranks do not end", func() bool {
		text := p.scrape()
		if !strings.Contains(text, allThere) || !strings.Contains(text, "ibrun_pages_unreadable 0") {
			t.Fatalf("a rank's calls are missing in\n%s", text)
		}
		return strings.Contains(text, `ibrun_ranks{state="dead"} 2`)
	})
	p.wantOnlyLines()
	at := p.metricsAt()
	var looked atomic.Int32
	gone := make(chan struct{})
	go func() { // until the server is gone
		defer close(gone)
		for ; ; looked.Add(1) {
			text, err := get(at)
			if err != nil {
				return
			}
			if !strings.Contains(text, allThere) {
				t.Errorf("a rank's calls are missing in\n%s", text)
			}
		}
	}()
	waittest.Until(t, "pages are read", func() bool { return looked.Load() > 1 })
	p.signal(p.pids[slices.Index(p.running(), true)], syscall.SIGKILL)
	p.wantCode(137, "was killed by signal 9 (SIGKILL)\n")
	p.wantOnlyLines("the last output of rank", "  | ready ", "was killed by signal 9")
	waittest.Receive(t, "the server is gone", gone)
	t.Logf("looked %d times meanwhile", looked.Load())
}

// wantOnlyLines checks that ibrun prints one line with each of these texts, and no others except those about the metrics
// and the note about few cores.
func (p *process) wantOnlyLines(want ...string) {
	p.t.Helper()
	for line := range strings.Lines(p.stderrText()) {
		i := slices.IndexFunc(want, func(text string) bool { return strings.Contains(line, text) })
		switch {
		case i >= 0:
			want = slices.Delete(slices.Clone(want), i, i+1)
		case strings.Contains(line, lingers), strings.Contains(line, "metrics are at"), strings.Contains(line, "more ranks than cores"):
		default:
			p.t.Errorf("ibrun printed %q", line)
		}
	}
	if len(want) > 0 {
		p.t.Errorf("ibrun did not print %q, but\n%s", want, p.stderrText())
	}
}

// running reports which of the ranks that printed that they are ready are alive.
func (p *process) running() (all []bool) {
	for _, pid := range p.pids {
		all = append(all, slices.Contains(p.alive(), pid))
	}
	return all
}

// TestOtherVersion: ranks whose pages have another version are reported once, counted, and left out. The others are shown, and
// the outcome of the job does not change.
func TestOtherVersion(t *testing.T) {
	socketDir(t)
	file := filepath.Join(t.TempDir(), "report.json")
	p := startJob(t, 4, "-n", "2", "--metrics", ":0", "--metrics-linger", "0", "--report="+file, "rank", "record", ":", "-n", "2",
		"rank", "record", "newer")
	message := fmt.Sprintf("the program writes pages of version %d, this reads version %d", perf.Version+1, perf.Version)
	p.eventually("the version is not reported", func() bool { return strings.Contains(p.stderrText(), message) })
	for range 3 {
		text := p.scrape()
		for _, want := range []string{"ibrun_pages_unreadable 2", `ibrun_calls_total{op="Send"} 200`,
			`ibrun_ranks{state="running"} 2`} {
			if !strings.Contains(text, want+"\n") {
				t.Errorf("no %s in\n%s", want, text)
			}
		}
	}
	for rank, row := range runJSON[inspect.Table](t, "top", "--once", "--json", "--interval", "1200ms").Rows {
		if (row.Error != "") != (rank > 1) || rank < 2 && row.Calls != 100 {
			t.Errorf("top shows %+v", row)
		}
	}
	p.wantOnlyLines(message)
	p.signal(p.pids[0], syscall.SIGKILL)
	p.wantCode(137, "SIGKILL")
	r := readReport(t, file)
	if r.Ranks[2].State != report.Unreadable || !strings.Contains(r.Ranks[3].Problem, message) || r.Job.Recorded != 2 {
		t.Errorf("the report is of %+v", r.Ranks)
	}
}

// stream sends blocks of 64 KiB from rank 0 to rank 1 until a FIFO is closed, prints how many, and sleeps.
func stream(fifo string) error {
	const window = 16
	p, err := mpi.Init(context.Background(), nil)
	if err != nil {
		return err
	}
	ended, err := whenClosed(fifo)
	if err != nil {
		return err
	}
	fmt.Println("ready", os.Getpid())
	w, block, more := p.World(), make([]byte, 64<<10), []byte{1}
	sent := 0
	for more[0] != 0 {
		select {
		case <-ended:
			more[0] = 0 // the value of rank 0 decides
		default:
		}
		if err := mpi.Bcast(w, more, 0); err != nil {
			return err
		}
		for range window {
			if w.Rank() == 0 {
				err = mpi.Send(w, block, 1, 1)
			} else {
				_, err = mpi.Recv(w, block, 0, 1)
			}
			if err != nil {
				return err
			}
			sent++
		}
	}
	fmt.Println("moved", sent)
	napForEver()
	return nil
}

// TestManyScrapes: scrapes while messages stream miss no message in the counts. With IBRUN_SOAK=1 there are ten thousand.
func TestManyScrapes(t *testing.T) {
	t.Parallel()
	fifo := openFIFO(t)
	p := startJob(t, 2, "-n", "2", "--metrics", ":0", "rank", "stream", fifo.Name())
	number := func(text, name string) (n uint64) {
		found := regexp.MustCompile("(?m)^" + regexp.QuoteMeta(name) + ` (\S+)$`).FindStringSubmatch(text)
		if found == nil {
			return 0 // none yet
		}
		v, err := strconv.ParseFloat(found[1], 64)
		if err != nil {
			t.Fatal(err)
		}
		return uint64(v)
	}
	counters := []string{`ibrun_calls_total{op="Send"}`, `ibrun_calls_total{op="Recv"}`, `ibrun_operation_bytes_total{op="Send"}`,
		`ibrun_operation_seconds_count{op="Send",size="256Ki"}`}
	last := make([]uint64, len(counters))
	for range soaktest.Choose(10000, 200) {
		text := p.scrape()
		for i, name := range counters {
			n := number(text, name)
			if n < last[i] {
				t.Fatalf("%s was %d and is %d", name, last[i], n)
			}
			last[i] = n
		}
	}
	fifo.Close()
	var moved uint64
	for range 2 {
		if _, err := fmt.Sscanf(p.line(), "moved %d\n", &moved); err != nil {
			t.Fatal(err)
		}
	}
	text := p.scrape()
	for i, want := range []uint64{moved, moved, moved * 64 << 10, moved} {
		if n := number(text, counters[i]); n != want || want == 0 {
			t.Errorf("%s is %d, want %d", counters[i], n, want)
		}
	}
}
