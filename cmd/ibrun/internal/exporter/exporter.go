// Package exporter serves what the ranks of a node do to Prometheus, while the job runs:
//
//	e, err := exporter.Start(exporter.Options{Address: ":9464"}, node, tell)
//	tell("metrics are at " + e.URL())
//	...
//	err = e.Close()
//
// Whoever connects can harm neither the job nor other clients: connections and scrapes are limited in number and time.
package exporter

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/ibrun/ibrun/perf/prom"
)

// Options say where to serve.
type Options struct {
	// Address is host:port, a port alone, which is on the loopback address, or the path of a Unix socket.
	Address string
	// Discovery is the file that tells Prometheus where, or empty.
	Discovery string

	patience time.Duration // for clients to read their answers; 0: answerTimeout
}

// Exporter is the server of one node.
type Exporter struct {
	server *http.Server
	listen net.Listener
	at     string // the address that was asked for, with the port that was taken
	file   string // the discovery file that is there now
}

// Limits of a client.
const (
	maxConns      = 64
	headerTimeout = 5 * time.Second
	answerTimeout = 10 * time.Second
	idleTimeout   = 2 * time.Minute // more than Prometheus' longest usual interval
	maxHeader     = 16 << 10
)

// Start listens and serves until Close. What goes wrong meanwhile is told once, each kind of it. An address in use is an error of
// net.
func Start(o Options, n *prom.Node, tell func(string)) (*Exporter, error) {
	l, err := listen(o.Address)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	once := &once{tell: tell}
	mux.Handle("GET /metrics", n.Handler(once))
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "Job %s on %s: /metrics is the sum of the node's ranks, /metrics?ranks=each has every rank.\n", n.Job, n.Name)
	})
	e := &Exporter{listen: l, at: l.Addr().String(), server: &http.Server{Handler: mux, ReadHeaderTimeout: headerTimeout,
		WriteTimeout: cmp.Or(o.patience, answerTimeout), IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader,
		ErrorLog: log.New(silent{}, "", 0)}}
	if o.Discovery != "" {
		if err := e.announce(o.Discovery, n); err != nil {
			return nil, errors.Join(err, l.Close())
		}
	}
	go func() {
		if err := e.server.Serve(&limited{Listener: l, crowded: once.crowded}); !errors.Is(err, http.ErrServerClosed) {
			once.Println(err.Error())
		}
	}()
	return e, nil
}

// silent is where net/http complains of clients.
type silent struct{}

func (silent) Write(b []byte) (int, error) { return len(b), nil }

// listen takes an address as users write it.
func listen(address string) (net.Listener, error) {
	if strings.Contains(address, "/") {
		return listenUnix(address)
	}
	if !strings.Contains(address, ":") {
		address = ":" + address
	}
	if strings.HasPrefix(address, ":") {
		address = "127.0.0.1" + address
	}
	return net.Listen("tcp", address)
}

// listenUnix makes a socket that its owner may use. One that nobody listens at any more is taken over.
func listenUnix(path string) (net.Listener, error) {
	if info, err := os.Lstat(path); err == nil && info.Mode()&fs.ModeSocket != 0 {
		c, err := net.Dial("unix", path)
		if err == nil {
			c.Close()
			return nil, fmt.Errorf("listen at %s: another process does", path)
		}
		if err := os.Remove(path); err != nil {
			return nil, err
		}
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// URL is where to scrape.
func (e *Exporter) URL() string {
	if e.listen.Addr().Network() == "unix" {
		return "unix:" + e.at
	}
	return "http://" + e.at + "/metrics"
}

// announce writes the discovery file, whole or not at all.
func (e *Exporter) announce(file string, n *prom.Node) error {
	target := e.at
	if e.listen.Addr().Network() == "unix" {
		return fmt.Errorf("write %s: Prometheus does not scrape Unix sockets; give --metrics a host and a port", file)
	}
	if a := e.listen.Addr().(*net.TCPAddr); a.IP.IsUnspecified() {
		name, err := os.Hostname()
		if err != nil {
			return err
		}
		target = net.JoinHostPort(name, fmt.Sprint(a.Port))
	}
	type group struct {
		Targets []string          `json:"targets"`
		Labels  map[string]string `json:"labels"`
	}
	text, err := json.MarshalIndent([]group{{[]string{target}, map[string]string{"job_id": n.Job, "node": n.Name}}}, "", "  ")
	if err != nil {
		return err
	}
	temporary, err := os.CreateTemp(filepath.Dir(file), "."+filepath.Base(file)+".*")
	if err != nil {
		return err
	}
	_, err = temporary.Write(append(text, '\n'))
	err = errors.Join(err, temporary.Chmod(0o644), temporary.Close())
	if err == nil {
		err = os.Rename(temporary.Name(), file)
	}
	if err != nil {
		return errors.Join(err, os.Remove(temporary.Name()))
	}
	e.file = file
	return nil
}

// Close ends the server, after the answers that are under way, and removes the discovery file.
func (e *Exporter) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	err := e.server.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = e.server.Close() // somebody does not read
	}
	if e.file != "" {
		err = errors.Join(err, os.Remove(e.file))
	}
	return err
}

// once tells the first of what may go wrong many times, of each kind.
type once struct {
	tell            func(string)
	some, slow, lot sync.Once
}

// Println tells of an answer that failed. That a client has gone is not wrong.
func (o *once) Println(v ...any) {
	for _, word := range v {
		err, ok := word.(error)
		if ok && errors.Is(err, os.ErrDeadlineExceeded) {
			o.slow.Do(func() { o.tell("metrics: a client does not read its answer, and is let go; so will be others") })
			return
		}
		if ok && errors.As(err, new(*net.OpError)) {
			return
		}
	}
	o.some.Do(func() { o.tell("metrics: " + strings.TrimSpace(fmt.Sprintln(v...))) })
}

// crowded tells that there are too many connections.
func (o *once) crowded() {
	o.lot.Do(func() {
		o.tell(fmt.Sprintf("metrics: more than %d connections at a time, so the oldest are closed", maxConns))
	})
}
