package pmi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Slurm receives init with one read of 64 bytes, and every other command with one read of 1024 bytes.
const (
	maxInit    = 63
	maxCommand = 1023
)

// initTimeout bounds the wait for the launcher's answers during initialization. They do not depend on other processes.
const initTimeout = time.Minute

var (
	// ErrNotFound means that no process has put the key, or that no barrier was completed since.
	ErrNotFound = errors.New("pmi: no such key")
	// ErrNotSupported means that the launcher lacks the feature. The error that wraps it says what is needed.
	ErrNotSupported = errors.New("pmi: not supported by this launcher")
)

// conn is the connection to the launcher: an *os.File or a *net.TCPConn.
type conn interface {
	io.ReadWriteCloser
	SetDeadline(time.Time) error
}

// Client is the connection of a process to its launcher. Only one goroutine at a time may call its methods. Close is an
// exception: it may be called at any time, and a call that waits then returns an error. An error of the connection is final:
// later calls return it again.
type Client struct {
	conn       conn
	reader     reader
	rank, size int
	kvs        string
	maxKey     int // bytes
	maxValue   int
	subversion int
	err        error // why the connection failed; final
}

// FromEnv connects to the launcher that the environment names, and initializes PMI. Both results are nil if there is no
// launcher, or one without PMI that has started only this process. The error is a [*LaunchError] if this is one of several
// processes but there is no way to connect to the others. FromEnv marks the descriptor in PMI_FD close-on-exec, so that child
// processes do not inherit it. It may be called only once in a process, and waits for at most a minute.
func FromEnv(getenv func(string) string) (*Client, error) {
	e, err := dial(getenv)
	if e == nil {
		return nil, err
	}
	return newClient(e)
}

// newClient initializes PMI on the endpoint. It closes the connection if that fails.
func newClient(e *endpoint) (*Client, error) {
	c := &Client{conn: e.conn, reader: reader{src: e.conn}, rank: e.rank, size: e.size}
	if err := c.initialize(e); err != nil {
		return nil, errors.Join(err, ignoreClosed(c.Close()))
	}
	return c, nil
}

func (c *Client) initialize(e *endpoint) error {
	if err := c.conn.SetDeadline(time.Now().Add(initTimeout)); err != nil {
		return fmt.Errorf("pmi: set the deadline for the launcher: %w", err)
	}
	if e.rankUnknown {
		if err := c.requestRank(e.id); err != nil {
			return err
		}
	}
	if c.rank >= c.size {
		return fmt.Errorf("pmi: the launcher reports rank %d of %d for this process", c.rank, c.size)
	}
	if err := c.negotiateVersion(); err != nil {
		return err
	}
	if err := c.requestLimits(); err != nil {
		return err
	}
	m, err := c.call("my_kvsname", "get_my_kvsname")
	if err != nil {
		return err
	}
	c.kvs = m.get("kvsname")
	if c.kvs == "" || c.pieceBytes() < 16 {
		return fmt.Errorf("pmi: get_my_kvsname: with the launcher's name %.300q there is no room for values", c.kvs)
	}
	return c.conn.SetDeadline(time.Time{})
}

// requestRank gets rank and size of a process that has connected over TCP: one answer, and three lines after it.
func (c *Client) requestRank(id int) error {
	if _, err := c.call("initack", "initack", "pmiid", strconv.Itoa(id)); err != nil {
		return err
	}
	c.rank, c.size = -1, 0
	for range 3 {
		m, err := c.receive("initack", "set")
		if err != nil {
			return err
		}
		if c.rank, err = m.number("rank", c.rank); err != nil {
			return fmt.Errorf("pmi: initack: %w", err)
		}
		if c.size, err = m.number("size", c.size); err != nil {
			return fmt.Errorf("pmi: initack: %w", err)
		}
	}
	if c.rank < 0 {
		return fmt.Errorf("pmi: initack: the launcher reports rank %d for this process", c.rank)
	}
	return nil
}

// negotiateVersion requests 1.1, the only version that every launcher accepts. hydra and ibrun then offer 1.2.
func (c *Client) negotiateVersion() error {
	m, err := c.call("response_to_init", "init", "pmi_version", "1", "pmi_subversion", "1")
	if err != nil {
		return err
	}
	if version := m.get("pmi_version"); version != "1" {
		return fmt.Errorf("pmi: init: the launcher speaks version %q, want 1", version)
	}
	if c.subversion, err = m.number("pmi_subversion", 1); err != nil {
		return fmt.Errorf("pmi: init: %w", err)
	}
	return nil
}

func (c *Client) requestLimits() error {
	m, err := c.call("maxes", "get_maxes")
	if err != nil {
		return err
	}
	key, err := m.number("keylen_max", keyMax)
	if err != nil {
		return fmt.Errorf("pmi: get_maxes: %w", err)
	}
	value, err := m.number("vallen_max", valueMax)
	if err != nil {
		return fmt.Errorf("pmi: get_maxes: %w", err)
	}
	// The limits include C's terminating zero. Longer keys would leave less room for values and would not be portable.
	c.maxKey, c.maxValue = min(key, keyMax)-1, value-1
	return nil
}

// Rank returns the number of this process, 0 <= Rank < Size.
func (c *Client) Rank() int { return c.rank }

// Size returns the number of processes of the job.
func (c *Client) Size() int { return c.size }

// KVSName returns the name of the job's key-value space. It is unique among the jobs that the launcher runs at the same time.
func (c *Client) KVSName() string { return c.kvs }

// AppNum returns the number of this process's program in a job of several programs, or -1 if the launcher does not number them.
func (c *Client) AppNum() (int, error) { return c.queryNumber("get_appnum", "appnum", "appnum") }

// UniverseSize returns how many processes the launcher can run in total, or -1 if it does not report that.
func (c *Client) UniverseSize() (int, error) {
	return c.queryNumber("get_universe_size", "universe_size", "size")
}

func (c *Client) queryNumber(cmd, answer, key string) (int, error) {
	m, err := c.call(answer, cmd)
	if _, refused := err.(*rcError); refused {
		return -1, nil
	}
	if err != nil {
		return 0, err
	}
	n, err := m.number(key, -1)
	if err != nil {
		return 0, fmt.Errorf("pmi: %s: %w", cmd, err)
	}
	return n, nil
}

// Put stores value under key. Other processes are guaranteed to see it after the next Barrier. Both are words of visible ASCII
// without = ; and backslash. A key has at most 63 bytes. Key, value and KVSName must fit one command of 1023 bytes, so a value
// of 700 bytes always fits. Keys that begin with PMI_ are reserved for the launcher. Put a key only once: the effect of a
// second put depends on the launcher.
func (c *Client) Put(key, value string) error {
	if err := checkWord("key", key, c.maxKey); err != nil {
		return err
	}
	if err := checkWord("value", value, c.maxValue); err != nil {
		return err
	}
	_, err := c.call("put_result", "put", "kvsname", c.kvs, "key", key, "value", value)
	return err
}

// Get returns the value of key, or [ErrNotFound].
func (c *Client) Get(key string) (string, error) {
	if err := checkWord("key", key, c.maxKey); err != nil {
		return "", err
	}
	m, err := c.call("get_result", "get", "kvsname", c.kvs, "key", key)
	if _, refused := err.(*rcError); refused || err == nil && strings.EqualFold(m.get("found"), "false") {
		return "", fmt.Errorf("%w: %s", ErrNotFound, key)
	}
	if err != nil {
		return "", err
	}
	return m.get("value"), nil
}

// Barrier blocks until every process of the job has called it. Then all processes see the values that any of them has put
// before. If ctx ends first, the connection is closed, because PMI has no way to leave a barrier.
func (c *Client) Barrier(ctx context.Context) error { return c.barrier(ctx) }

// GroupBarrier is a Barrier of some ranks, which must include this one. All must pass the same ranks and tag. It returns
// [ErrNotSupported] if the launcher does not speak PMI 1.2, for example Slurm. About 200 ranks fit into the command.
func (c *Client) GroupBarrier(ctx context.Context, ranks []int, tag int) error {
	ranks = slices.Compact(slices.Sorted(slices.Values(ranks)))
	if !slices.Contains(ranks, c.rank) {
		return fmt.Errorf("pmi: barrier of ranks %v does not include this rank, %d", ranks, c.rank)
	}
	if tag < 0 {
		return fmt.Errorf("pmi: barrier with tag %d", tag)
	}
	if c.subversion < 2 {
		return fmt.Errorf("%w: a barrier of some ranks needs PMI 1.2, which ibrun and MPICH's mpiexec 4.3 speak", ErrNotSupported)
	}
	if len(ranks) == 1 {
		return nil // hydra does not support it
	}
	words := make([]string, len(ranks))
	for i, rank := range ranks {
		words[i] = strconv.Itoa(rank)
	}
	return c.barrier(ctx, "group", strings.Join(words, ",")+":"+strconv.Itoa(tag))
}

func (c *Client) barrier(ctx context.Context, group ...string) error {
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	_, err := c.call("barrier_out", "barrier_in", group...)
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("pmi: barrier_in: %w", context.Cause(ctx))
	}
	return err
}

// Mapping returns the number of each rank's node according to the launcher, or [ErrNotFound] if the launcher does not provide
// it. Slurm's mapping is wrong if ranks were placed with an arbitrary distribution. So ranks of one node must still check that
// they share memory.
func (c *Client) Mapping() ([]int, error) {
	text, err := c.Get(mappingKey)
	if err != nil {
		return nil, err
	}
	if text == "" {
		return nil, fmt.Errorf("%w: %s is empty", ErrNotFound, mappingKey)
	}
	return parseMapping(text, c.size)
}

// NodeRanks returns the ranks on this node in ascending order, including this one, according to [Client.Mapping].
func (c *Client) NodeRanks() ([]int, error) {
	nodes, err := c.Mapping()
	if err != nil {
		return nil, err
	}
	var ranks []int
	for rank, node := range nodes {
		if node == nodes[c.rank] {
			ranks = append(ranks, rank)
		}
	}
	return ranks, nil
}

// Abort requests that the launcher ends the job with an exit code. Some launchers also show the message. The launcher does not
// answer; it kills this process too after some time.
func (c *Client) Abort(code int, msg string) error {
	args := []string{"exitcode", strconv.Itoa(code)}
	if msg != "" {
		args = append(args, "message", escape(msg))
	}
	line := encode("abort", args...)
	if len(line) > maxCommand {
		line = append(trimEscape(line[:maxCommand-1]), '\n')
	}
	return c.send("abort", line)
}

// trimEscape removes the backslashes at the end of line, because the last one may be half of an escape.
func trimEscape(line []byte) []byte {
	for line[len(line)-1] == '\\' {
		line = line[:len(line)-1]
	}
	return line
}

// Finalize notifies the launcher that this process may exit from now on, and closes the connection. A launcher reports a
// process that exits without it as failed.
func (c *Client) Finalize() error {
	if _, err := c.call("finalize_ack", "finalize"); err != nil {
		return err
	}
	c.err = fmt.Errorf("pmi: finalized: %w", os.ErrClosed)
	return c.conn.Close()
}

// Close closes the connection. Without Finalize before it, the launcher reports this process as failed. A second Close returns
// an error and has no effect.
func (c *Client) Close() error { return c.conn.Close() }

// rcError is an answer with rc other than zero. The connection can still be used.
type rcError struct{ cmd, rc, msg string }

func (r *rcError) Error() string {
	return fmt.Sprintf("pmi: %s: the launcher returned rc=%s %s", r.cmd, r.rc, unescape(r.msg))
}

// call sends a command and returns its answer.
func (c *Client) call(answer, cmd string, keyValues ...string) (message, error) {
	line := encode(cmd, keyValues...)
	limit := maxCommand
	if cmd == "init" {
		limit = maxInit
	}
	if len(line) > limit {
		return message{}, fmt.Errorf("pmi: %s takes %d bytes; launchers accept at most %d", cmd, len(line), limit)
	}
	if err := c.send(cmd, line); err != nil {
		return message{}, err
	}
	m, err := c.receive(cmd, answer)
	if err != nil {
		return message{}, err
	}
	if rc := m.get("rc"); rc != "" && rc != "0" {
		return message{}, &rcError{cmd, rc, m.get("msg")}
	}
	return m, nil
}

func (c *Client) send(cmd string, line []byte) error {
	if c.err == nil {
		if _, err := c.conn.Write(line); err != nil {
			c.setError(cmd, err)
		}
	}
	return c.err
}

// receive returns the next message from the launcher, which must be an answer to cmd.
func (c *Client) receive(cmd, answer string) (message, error) {
	m, err := c.reader.next()
	switch {
	case err == io.EOF:
		c.setError(cmd, fmt.Errorf("launcher closed the connection: %w", io.ErrUnexpectedEOF))
	case err != nil:
		c.setError(cmd, err)
	case m.cmd != answer && slices.Contains(answers, m.cmd):
		c.setError(cmd, fmt.Errorf("the launcher answered %s, want %s; perhaps this rank has started two MPI programs, which take "+
			"each other's answers: a rank runs one MPI program at a time", m.cmd, answer))
	case m.cmd != answer:
		c.setError(cmd, fmt.Errorf("%w: the launcher answered %.40q, want %s", ErrMalformed, m.cmd, answer))
	}
	return m, c.err
}

// answers are those to the commands that programs of MPI send when they start and end.
var answers = []string{"response_to_init", "maxes", "my_kvsname", "appnum", "universe_size", "put_result", "get_result",
	"barrier_out", "finalize_ack"}

// setError closes the connection, because commands and answers no longer match.
func (c *Client) setError(cmd string, err error) {
	c.err = errors.Join(fmt.Errorf("pmi: %s: %w", cmd, err), ignoreClosed(c.conn.Close()))
}

// ignoreClosed returns err, or nil if it says that the file was closed before.
func ignoreClosed(err error) error {
	if errors.Is(err, os.ErrClosed) {
		return nil
	}
	return err
}
