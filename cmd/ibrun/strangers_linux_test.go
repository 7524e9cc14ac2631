package main

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// strangersPerSecond is how many connections strangers make.
const strangersPerSecond = 1000

// maxStrangerConns is how many of them stay open.
const maxStrangerConns = 3000

// recordedRequest is what a node of another job has sent to node 0.
const recordedRequest = "\x00\x00\x00\x01\x00\x00\x00\x02"

// strangerTexts returns what strangers send: nothing, garbage, the beginning of a request, a whole recorded one with a wrong
// proof, HTTP, and the beginning of TLS.
func strangerTexts() []string {
	record := "ibrun/n\x03" + recordedRequest + strings.Repeat("\x07", 100)
	hello, _ := hex.DecodeString("16030100c8010000c40303")
	return []string{"", strings.Repeat("\xff\x00garbage", 40), "ibrun/n", "i", record, record[:30],
		"GET / HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("y", 500), string(hello), "ibrun-tcp" + strings.Repeat("\x00", 200)}
}

// strangers is a process that knows no secret. It connects to the addresses that it reads from its input, a line each, in turn,
// until the input ends. An address with a minus sign is left out from then on. At the end it prints how often it has connected.
func strangers() int {
	var mu sync.Mutex
	var connected atomic.Int64
	var addrs []string
	go func() {
		defer os.Exit(0)
		defer func() { fmt.Println(connected.Load()) }()
		in := bufio.NewScanner(os.Stdin)
		for in.Scan() {
			mu.Lock()
			if addr, gone := strings.CutPrefix(in.Text(), "-"); gone {
				addrs = slices.DeleteFunc(addrs, func(a string) bool { return a == addr })
			} else {
				addrs = append(addrs, addr)
			}
			mu.Unlock()
		}
	}()
	texts := strangerTexts()
	open := make(chan net.Conn, maxStrangerConns)
	began := time.Now()
	for n := 0; ; n++ {
		// What was missed while other processes ran is made up for.
		time.Sleep(time.Until(began.Add(time.Duration(n) * time.Second / strangersPerSecond)))
		mu.Lock()
		if len(addrs) == 0 {
			began, n = time.Now(), 0
			mu.Unlock()
			time.Sleep(time.Millisecond)
			continue
		}
		addr := addrs[n%len(addrs)]
		mu.Unlock()
		c, err := net.DialTimeout("tcp", addr, 100*time.Millisecond)
		if err != nil {
			continue
		}
		connected.Add(1)
		_ = c.SetWriteDeadline(time.Now().Add(10 * time.Millisecond))
		io.WriteString(c, texts[n/7%len(texts)])
		for kept := false; !kept; {
			select {
			case open <- c:
				kept = true
			default:
				(<-open).Close()
			}
		}
	}
}

// strangerProcess is a running process of strangers.
type strangerProcess struct {
	mu    sync.Mutex
	input io.WriteCloser
	known map[string]bool
}

func startStrangers(t *testing.T) *strangerProcess {
	t.Helper()
	cmd := exec.Command("strangers")
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
	var output strings.Builder
	cmd.Stdout = &output
	began := time.Now()
	input, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		input.Close()
		cmd.Wait()
		t.Logf("strangers connected %s times in %v", strings.TrimSpace(output.String()), time.Since(began).Round(time.Second))
	})
	return &strangerProcess{input: input, known: map[string]bool{}}
}

// visit makes the strangers connect to an address.
func (s *strangerProcess) visit(addr string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.known[addr] {
		s.known[addr] = true
		fmt.Fprintln(s.input, addr)
	}
}

// leave makes the strangers forget all addresses.
func (s *strangerProcess) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for addr := range s.known {
		fmt.Fprintln(s.input, "-"+addr)
	}
	clear(s.known)
}

// visitAll makes the strangers connect to everything that processes of the job listen at, until done is closed.
func (s *strangerProcess) visitAll(done <-chan struct{}, job []*process) {
	for {
		for _, p := range job {
			for _, l := range p.listeners() {
				if addr, ok := tcpAddress(l); ok {
					s.visit(addr)
				}
			}
		}
		select {
		case <-done:
			return
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// tcpAddress returns the address of a line of listeners that strangers on this machine can connect to.
func tcpAddress(listener string) (string, bool) {
	family, hexAddr, _ := strings.Cut(listener, " ")
	host, hexPort, _ := strings.Cut(hexAddr, ":")
	port, err := strconv.ParseUint(hexPort, 16, 16)
	if err != nil {
		return "", false
	}
	switch {
	case family == "tcp6":
		return fmt.Sprintf("[::1]:%d", port), host == strings.Repeat("0", 32) || strings.HasSuffix(host, "01000000")
	case host == "00000000":
		return fmt.Sprintf("127.0.0.1:%d", port), true
	}
	b, err := hex.DecodeString(host)
	if err != nil || len(b) != 4 {
		return "", false
	}
	return fmt.Sprintf("%d.%d.%d.%d:%d", b[3], b[2], b[1], b[0], port), true
}

// TestStrangers: strangers who connect a thousand times a second to everything that listens, from before the start until after
// the end, do not make a job fail. They share the
// processors with the job, but with at most one thread that runs.
func TestStrangers(t *testing.T) {
	t.Parallel()
	jobs, found := soak(50, 1), 0
	s := startStrangers(t)
	for i := range jobs {
		ns := newNodes(t, 2)
		s.visit(ns.addr)
		for k := range ns.n {
			ns.list[k] = startCommand(t, 0, ns.command(k, "--heartbeat", "15s", "--transport", "tcp", "--metrics", "0", "-n", "2",
				"rank", "checked", soak("2s", "1s")))
		}
		done := make(chan struct{})
		var visitors sync.WaitGroup
		visitors.Go(func() { s.visitAll(done, ns.list) })
		for k, p := range ns.list {
			if code := p.wait(); code != 0 {
				t.Errorf("job %d: exit code %d of node %d:\n%s", i, code, k, p.stderrText())
			}
		}
		close(done)
		visitors.Wait()
		found = max(found, len(s.known))
		s.leave()
	}
	if found < 5 { // two ports of the ibruns, one of each rank, and the metrics
		t.Errorf("strangers found only %d listeners", found)
	}
}
