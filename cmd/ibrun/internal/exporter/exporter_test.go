package exporter

import (
	"context"
	"encoding/json"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ibrun/ibrun/perf"
	"github.com/ibrun/ibrun/perf/prom"
)

// idle is a node of one rank that does nothing.
func idle() *prom.Node {
	return &prom.Node{Job: "j1", Name: "n0", Ranks: func() []prom.Rank { return []prom.Rank{{Rank: 3}} }}
}

func start(t *testing.T, o Options, n *prom.Node) *Exporter {
	t.Helper()
	e, err := Start(o, n, func(s string) { t.Error(s) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

// get scrapes by a client of its own.
func get(t *testing.T, e *Exporter) string {
	t.Helper()
	url, transport := e.URL(), &http.Transport{DisableKeepAlives: true}
	if path, unix := strings.CutPrefix(url, "unix:"); unix {
		url = "http://unix/metrics"
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		}
	}
	r, err := (&http.Client{Transport: transport}).Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != http.StatusOK {
		t.Fatal(r.Status, err)
	}
	return string(text)
}

const silentRank = `ibrun_ranks{state="silent"} 1`

func TestAddresses(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "metrics.sock")
	for address, want := range map[string]string{
		"0": "http://127.0.0.1:", ":0": "http://127.0.0.1:", "127.0.0.1:0": "http://127.0.0.1:", "[::]:0": "http://[::]:",
		socket: "unix:" + socket,
	} {
		e := start(t, Options{Address: address}, idle())
		if !strings.HasPrefix(e.URL(), want) || strings.HasSuffix(e.URL(), ":0/metrics") {
			t.Errorf("%s is served at %s, want %s", address, e.URL(), want)
		}
		if text := get(t, e); !strings.Contains(text, silentRank) {
			t.Errorf("%s: %s", address, text)
		}
	}
	if info, err := os.Stat(socket); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
}

func TestInUse(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "metrics.sock")
	for _, address := range []string{"127.0.0.1:0", socket} {
		e := start(t, Options{Address: address}, idle())
		if _, err := Start(Options{Address: e.at}, idle(), nil); err == nil {
			t.Errorf("%s is served twice", e.at)
		}
	}
	// A socket that a killed ibrun has left.
	left := filepath.Join(t.TempDir(), "left.sock")
	l, err := net.Listen("unix", left)
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	l.Close()
	start(t, Options{Address: left}, idle())
}

func TestDiscovery(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ibrun.json")
	e, err := Start(Options{Address: ":0", Discovery: file}, idle(), nil)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var groups []struct {
		Targets []string
		Labels  map[string]string
	}
	if err := json.Unmarshal(text, &groups); err != nil || len(groups) != 1 || groups[0].Targets[0] != e.at ||
		groups[0].Labels["job_id"] != "j1" || groups[0].Labels["node"] != "n0" {
		t.Errorf("%v: %s", err, text)
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		t.Errorf("the file is still there: %v", err)
	}
	if names, _ := filepath.Glob(filepath.Join(filepath.Dir(file), ".*")); len(names) > 0 {
		t.Errorf("%v were left", names)
	}
	for _, o := range []Options{{Address: ":0", Discovery: filepath.Join(file, "no", "directory")},
		{Address: filepath.Join(t.TempDir(), "s"), Discovery: file}} {
		if _, err := Start(o, idle(), nil); err == nil {
			t.Errorf("%+v is no error", o)
		}
	}
}

// busy is a node of so many ranks that have called everything.
func busy(t *testing.T, ranks int) *prom.Node {
	t.Helper()
	full := make([]prom.Rank, ranks)
	for i := range full {
		memory := make([]byte, perf.PageBytes)
		r, err := perf.NewRecorder(memory, perf.Identity{Rank: i, Size: len(full)}, perf.All)
		if err != nil {
			t.Fatal(err)
		}
		for _, op := range perf.Ops() {
			r.End(op, 8, r.Begin(op, 8))
		}
		page, err := perf.Open(memory)
		if err != nil {
			t.Fatal(err)
		}
		full[i].Rank = i
		if full[i].Snapshot, err = page.Snapshot(); err != nil {
			t.Fatal(err)
		}
	}
	n := idle()
	n.Ranks = func() []prom.Rank { return full }
	return n
}

// lines collects what is told.
type lines struct {
	mu  sync.Mutex
	all []string
}

func (l *lines) tell(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, text)
}

// want waits until something has been told, and wants one line, with a text in it.
func (l *lines) want(t *testing.T, e *Exporter, text string) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		l.mu.Lock()
		n := len(l.all)
		l.mu.Unlock()
		if n > 0 || time.Now().After(deadline) {
			break
		}
	}
	began := time.Now()
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took > answerTimeout {
		t.Errorf("the end waits %v for those who do not read", took)
	}
	if len(l.all) != 1 || !strings.Contains(l.all[0], text) {
		t.Errorf("told %q, want one line with %q", l.all, text)
	}
}

// TestTenThousandConnections: connections that say nothing do not keep others from being answered, and are told of once.
func TestTenThousandConnections(t *testing.T) {
	const connections, kept = 10000, 500 // of which the exporter keeps fewer: this side may not have so many descriptors
	var told lines
	e, err := Start(Options{Address: ":0"}, idle(), told.tell)
	if err != nil {
		t.Fatal(err)
	}
	var open []net.Conn
	for range connections {
		c, err := net.Dial("tcp", e.at)
		if err != nil {
			t.Fatal(err)
		}
		if open = append(open, c); len(open) > kept {
			open[0].Close()
			open = open[1:]
		}
	}
	defer func() {
		for _, c := range open {
			c.Close()
		}
	}()
	if text := get(t, e); !strings.Contains(text, silentRank) {
		t.Error("no answer")
	}
	told.want(t, e, "more than 64 connections")
}

// unread has three clients ask for long answers and not read them.
func unread(t *testing.T, e *Exporter) {
	t.Helper()
	for range 3 {
		c, err := net.Dial("tcp", e.at)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		c.(*net.TCPConn).SetReadBuffer(4096)
		if _, err := c.Write([]byte("GET /metrics?ranks=each HTTP/1.1\r\nHost: x\r\n\r\n")); err != nil {
			t.Fatal(err)
		}
	}
}

// TestAnswersUnread: scrapes that never read their answers do not keep others from being answered, nor the exporter from its end,
// and are told of once.
func TestAnswersUnread(t *testing.T) {
	var told lines
	e, err := Start(Options{Address: ":0", patience: 50 * time.Millisecond}, busy(t, 256), told.tell)
	if err != nil {
		t.Fatal(err)
	}
	unread(t, e)
	told.want(t, e, "does not read its answer")
}

// TestAnsweredBesides: while some do not read, others are answered.
func TestAnsweredBesides(t *testing.T) {
	e := start(t, Options{Address: ":0"}, busy(t, 64))
	unread(t, e)
	if text := get(t, e); !strings.Contains(text, `ibrun_ranks{state="running"} 64`) {
		t.Error("no answer")
	}
}

// TestToldOnce: what fails at each scrape is told once.
func TestToldOnce(t *testing.T) {
	n := idle()
	n.Ranks = func() []prom.Rank { return []prom.Rank{{Rank: 1}, {Rank: 1}} }
	n.Root = badRoot{}
	var told []string
	e, err := Start(Options{Address: ":0"}, n, func(s string) { told = append(told, s) })
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		r, err := http.Get(e.URL() + "?ranks=each") // two ranks with one number cannot be told apart
		if err != nil {
			t.Fatal(err)
		}
		r.Body.Close()
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	if len(told) != 1 {
		t.Errorf("told %q, want one line", told)
	}
}

// badRoot is a machine that cannot be read.
type badRoot struct{}

func (badRoot) Open(name string) (fs.File, error) {
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrPermission}
}
