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
	for _, o := range []Options{{":0", filepath.Join(file, "no", "directory")}, {filepath.Join(t.TempDir(), "s"), file}} {
		if _, err := Start(o, idle(), nil); err == nil {
			t.Errorf("%+v is no error", o)
		}
	}
}

// TestSilentClients: connections that say nothing, or never read their answer, do not keep others from being answered.
func TestSilentClients(t *testing.T) {
	n := idle()
	full := make([]prom.Rank, 64)
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
	n.Ranks = func() []prom.Rank { return full }
	e := start(t, Options{Address: ":0"}, n)
	for range 1000 {
		c, err := net.Dial("tcp", e.at)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	for range 3 {
		c, err := net.Dial("tcp", e.at)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		c.(*net.TCPConn).SetReadBuffer(4096)
		if _, err := c.Write([]byte("GET /metrics?ranks=each HTTP/1.1\r\nHost: x\r\n\r\n")); err != nil {
			t.Fatal(err)
		}
	}
	if text := get(t, e); !strings.Contains(text, `ibrun_ranks{state="running"} 64`) {
		t.Error("no answer")
	}
	began := time.Now()
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took > answerTimeout {
		t.Errorf("the end waits %v for those who do not read", took)
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
