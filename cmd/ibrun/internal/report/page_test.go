package report

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ibrun/ibrun/internal/needtest"
	"github.com/ibrun/ibrun/internal/waittest"
	"github.com/ibrun/ibrun/perf"
)

// hostile is text that a page must show but must not interpret.
const hostile = `<script>console.error("obeyed")</script><img src="http://evil.invalid/x">"'` + "`{{.}}"

// hostileJob returns a job with hostile text in every field that comes from outside.
func hostileJob() Job {
	j := slowJob()
	j.ID, j.Version, j.Failure = hostile, hostile, []string{hostile}
	j.Programs = []Program{{Ranks: 4, Args: []string{hostile, "--x=" + hostile}, Go: hostile, Library: hostile}}
	n := &j.Nodes[0]
	n.Name, n.Version, n.Kernel, n.Processor, n.Environment = hostile, hostile, hostile, hostile, []Variable{{"GOGC", hostile}}
	n.Ports = []Port{{hostile, RDMA, 3e6, 3e6}, {"mlx5_1:1", hostile, 1e6, 1e6}, {"mlx5_2:1", RDMA, 1e6, 1e6}}
	n.Ranks[0].Bound, n.Ranks[1].Memory, n.Ranks[2].Device = hostile, hostile, hostile
	return j
}

func html(t *testing.T, r *Report) string {
	t.Helper()
	var b strings.Builder
	if err := r.HTML(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestPage: text from outside never becomes markup of the page, and the page loads nothing.
func TestPage(t *testing.T) {
	text := html(t, New(hostileJob()))
	for _, never := range []string{"<script", "<img", "ZgotmplZ", "&lt;no value", "<no value"} {
		if strings.Contains(text, never) {
			t.Errorf("the page has %s", never)
		}
	}
	for _, ref := range regexp.MustCompile(`\b(?:src|href|action|data|srcset)=("[^"]*")`).FindAllStringSubmatch(text, -1) {
		if !strings.HasPrefix(ref[1], `"data:`) {
			t.Errorf("the page refers to %s", ref[1])
		}
	}
	if strings.Contains(text, "url(") || strings.Contains(text, "@import") {
		t.Error("its style refers to something")
	}
}

// TestLargePage: the page of a job with many ranks limits what it draws and lists.
func TestLargePage(t *testing.T) {
	j := slowJob()
	j.Nodes[0].Ranks, j.Ranks = nil, nil
	const n = 5000
	for i := range n {
		s := recorded(i%4, 6*time.Second, 5*time.Second)
		s.Rank, s.Size, s.State, s.Ended = i, n, perf.Running, time.Time{}
		for maxBytes := 4096; maxBytes <= perf.LongestClass; maxBytes *= 2 {
			s.Long = append(s.Long, perf.LongTraffic{Transport: perf.RDMA, Protocol: perf.Read, MaxBytes: maxBytes,
				Volume: perf.Volume{Messages: 1, Bytes: uint64(maxBytes)}})
		}
		s.Current = []perf.Current{{Op: perf.Recv, Peer: (i + 1) % n, Tag: i}}
		s.Peers = []perf.Peer{{Rank: (i + 1) % n, Transport: perf.RDMA, Out: perf.Volume{Messages: 1, Bytes: uint64(i)}},
			{Rank: -1, Transport: perf.TCP, Out: perf.Volume{Messages: 1, Bytes: 1}}}
		j.Ranks = append(j.Ranks, Rank{Snapshot: s})
		j.Nodes[0].Ranks = append(j.Nodes[0].Ranks, Place{Rank: i})
	}
	r := New(j)
	text := html(t, r)
	if len(text) > 1<<20 {
		t.Errorf("the page has %d bytes", len(text))
	}
	wantAll(t, text, "3,976 ranks not shown", "means of 40 ranks each", "ranks 4960-4999",
		"rank 5 was in Recv from rank 6 with tag 5 at the end", "other ranks were in 4994 more calls",
		"105 ranks per row and column", "the largest of 10,000")
	wantAll(t, text, `<td class="left">rdma</td><td>&lt;= 64 MiB</td><td>5,000</td>`, `<td class="left">read 100 %</td>`)
	var b strings.Builder
	if err := r.Text(&b); err != nil {
		t.Fatal(err)
	}
	wantAll(t, b.String(), "by length: the 8 of 18 with most bytes\n", "  rdma  <= 64 MiB ")
	if lines := strings.Count(b.String(), "\n"); lines > 75 {
		t.Errorf("the text has %d lines", lines)
	}
}

// TestEmptyPage: a job that recorded nothing has a page as well.
func TestEmptyPage(t *testing.T) {
	text := html(t, New(Job{ID: "job", Nodes: []Node{{Name: "n", Ranks: []Place{{Rank: 0}}}}, Ranks: make([]Rank, 1)}))
	wantAll(t, text, "rank 0 recorded nothing", "no record")
	if strings.Contains(text, "NaN") || strings.Contains(text, `id="bars"`) {
		t.Error("there is a chart without data")
	}
}

// browser is Chromium without a network: a proxy records all of its requests and answers none.
type browser struct {
	program string
	proxy   net.Listener

	mu       sync.Mutex
	requests []string // URLs and hosts
}

func newBrowser(t *testing.T) *browser {
	t.Helper()
	program := needtest.Program(t, "chromium", "chromium")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	b := &browser{program: program, proxy: l}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go b.recordRequest(c)
		}
	}()
	return b
}

// recordRequest records the request on a connection and closes it.
func (b *browser) recordRequest(c net.Conn) {
	defer c.Close()
	r, err := http.ReadRequest(bufio.NewReader(c))
	if err != nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.requests = append(b.requests, r.RequestURI)
}

// open opens a file. It returns the document as the browser parsed it, the messages of the page on the console, and the requests,
// without those that browsers send to their vendor.
func (b *browser) open(t *testing.T, file, picture string) (dom string, console, requests []string) {
	t.Helper()
	args := []string{"--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-extensions",
		"--user-data-dir=" + t.TempDir(), "--proxy-server=" + b.proxy.Addr().String(), "--proxy-bypass-list=<-loopback>",
		"--enable-logging=stderr", "--window-size=1000,2000", "--screenshot=" + picture, "--dump-dom", "file://" + file}
	cmd := exec.CommandContext(waittest.Context(t), b.program, args...)
	var log strings.Builder
	cmd.Stderr = &log
	cmd.WaitDelay = 5 * time.Second
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, log.String())
	}
	for line := range strings.Lines(log.String()) {
		// The browser has pages of its own, which write here when they load slowly.
		if strings.Contains(line, "CONSOLE") && !strings.Contains(line, "source: chrome://") {
			console = append(console, line)
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	vendor := regexp.MustCompile(`^(?:http://)?[a-z0-9-]+\.(?:google|googleapis|gvt1)\.com[:/]`)
	return string(out), console, slices.DeleteFunc(slices.Clone(b.requests), vendor.MatchString)
}

// countRows counts the rows in the body of a table.
func countRows(dom, table string) int {
	_, rest, _ := strings.Cut(dom, fmt.Sprintf(`<table id="%s">`, table))
	body, _, _ := strings.Cut(rest, "</table>")
	_, body, _ = strings.Cut(body, "<tbody>")
	return strings.Count(body, "<tr")
}

// TestBrowser: in a browser without a network, the page has its tables and charts, sends no requests and logs no errors, even
// with hostile text.
func TestBrowser(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	file, picture := filepath.Join(t.TempDir(), "a.html"), filepath.Join(t.TempDir(), "a.png")
	if err := New(hostileJob()).Write(file); err != nil {
		t.Fatal(err)
	}
	dom, console, requests := b.open(t, file, picture)
	if len(console) > 0 || len(requests) > 0 {
		t.Errorf("the console has %q, the page asked for %q", console, requests)
	}
	for table, want := range map[string]int{"ranks": 4, "operations": 2, "traffic": 1, "pairs": 4, "ports": 3, "environment": 3} {
		if got := countRows(dom, table); got != want {
			t.Errorf("table %s has %d rows, want %d", table, got, want)
		}
	}
	wantAll(t, dom, `<svg id="bars"`, `<svg id="latency"`, `<svg id="matrix"`, `<b>Slowest:</b> rank 2: it waited 1.0 % of its time`)
	if info, err := os.Stat(picture); err != nil || info.Size() < 10000 {
		t.Errorf("there is no screenshot: %v", err)
	}
}

// TestBrowserDetectsErrors: the checks of TestBrowser find errors and requests.
func TestBrowserDetectsErrors(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	file := filepath.Join(t.TempDir(), "bad.html")
	const bad = `<!DOCTYPE html><img src="http://probe.invalid/x.png"><script>console.error("loud")</script>`
	if err := os.WriteFile(file, []byte(bad), 0o600); err != nil {
		t.Fatal(err)
	}
	dom, console, requests := b.open(t, file, filepath.Join(t.TempDir(), "bad.png"))
	if len(console) != 1 || !slices.Contains(requests, "http://probe.invalid/x.png") || !strings.Contains(dom, "<script>") {
		t.Errorf("the console has %q, and the page asked for %q:\n%s", console, requests, dom)
	}
}
