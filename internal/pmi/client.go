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

// Slurm takes init from one read of 64 bytes and every other command from one of 1024.
const (
	maxInit    = 63
	maxCommand = 1023
)

// greetTimeout bounds the wait for a launcher's first answers, which wait for no other process.
const greetTimeout = time.Minute

var (
	// ErrNotFound says that nobody has put a key, or that no barrier has passed since.
	ErrNotFound = errors.New("pmi: no such key")
	// ErrNotSupported says that the launcher does not offer it; the wrapping error says what is needed.
	ErrNotSupported = errors.New("pmi: not supported by this launcher")
)

// conn is the way to the launcher: an *os.File or a *net.TCPConn.
type conn interface {
	io.ReadWriteCloser
	SetDeadline(time.Time) error
}

// Client is a process's connection to its launcher. One goroutine at a time calls its methods; only Close may be
// called at any time, and ends a call that waits. An error of the connection itself is final: later calls return it
// again.
type Client struct {
	conn       conn
	in         reader
	rank, size int
	kvs        string
	maxKey     int // bytes
	maxValue   int
	subversion int
	err        error // why the connection is of no use any more
}

// FromEnv connects to the launcher named by the environment and exchanges the greeting. Both results are nil where
// there is no launcher, or one that started this process alone and offers nothing. A [*LaunchError] says that this
// is one of several processes but nothing offers to connect them. The descriptor in PMI_FD is closed on exec from
// here on, so that children of this process do not keep it. FromEnv may be called once in a process; it waits for
// at most a minute.
func FromEnv(getenv func(string) string) (*Client, error) {
	e, err := dial(getenv)
	if e == nil {
		return nil, err
	}
	return newClient(e)
}

// newClient takes over the endpoint and exchanges the greeting.
func newClient(e *endpoint) (*Client, error) {
	c := &Client{conn: e.conn, in: reader{src: e.conn}, rank: e.rank, size: e.size}
	if err := c.greet(e); err != nil {
		return nil, errors.Join(err, ignoreClosed(c.Close()))
	}
	return c, nil
}

func (c *Client) greet(e *endpoint) error {
	if err := c.conn.SetDeadline(time.Now().Add(greetTimeout)); err != nil {
		return fmt.Errorf("pmi: bound the wait for the launcher: %w", err)
	}
	if e.ask {
		if err := c.askPlace(e.id); err != nil {
			return err
		}
	}
	if c.rank >= c.size {
		return fmt.Errorf("pmi: launcher says this is rank %d of %d", c.rank, c.size)
	}
	if err := c.askVersion(); err != nil {
		return err
	}
	if err := c.askLimits(); err != nil {
		return err
	}
	m, err := c.call("my_kvsname", "get_my_kvsname")
	if err != nil {
		return err
	}
	c.kvs = m.get("kvsname")
	if c.kvs == "" || c.pieceBytes() < 16 {
		return fmt.Errorf("pmi: get_my_kvsname: launcher's name %.300q leaves no room for values", c.kvs)
	}
	return c.conn.SetDeadline(time.Time{})
}

// askPlace is how a process that came over TCP learns rank and size: one answer and three lines after it.
func (c *Client) askPlace(id int) error {
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
		return fmt.Errorf("pmi: initack: launcher says this is rank %d", c.rank)
	}
	return nil
}

// askVersion asks for 1.1, the only one that every launcher takes; hydra and ibrun then offer 1.2.
func (c *Client) askVersion() error {
	m, err := c.call("response_to_init", "init", "pmi_version", "1", "pmi_subversion", "1")
	if err != nil {
		return err
	}
	if version := m.get("pmi_version"); version != "1" {
		return fmt.Errorf("pmi: init: launcher speaks version %q, want 1", version)
	}
	if c.subversion, err = m.number("pmi_subversion", 1); err != nil {
		return fmt.Errorf("pmi: init: %w", err)
	}
	return nil
}

func (c *Client) askLimits() error {
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
	// C's closing zero counts. Longer keys would take room from values and would not be portable.
	c.maxKey, c.maxValue = min(key, keyMax)-1, value-1
	return nil
}

// Rank is this process's number, 0 <= Rank < Size.
func (c *Client) Rank() int { return c.rank }

// Size is the number of processes of the job.
func (c *Client) Size() int { return c.size }

// KVSName is the name of the job's key-value space, unique among jobs that the launcher runs at the same time.
func (c *Client) KVSName() string { return c.kvs }

// AppNum is the number of this process's program in a job of several programs; -1 where the launcher does not
// number them.
func (c *Client) AppNum() (int, error) { return c.ask("get_appnum", "appnum", "appnum") }

// UniverseSize is how many processes the launcher has room for; -1 where it does not say.
func (c *Client) UniverseSize() (int, error) {
	return c.ask("get_universe_size", "universe_size", "size")
}

func (c *Client) ask(cmd, answer, key string) (int, error) {
	m, err := c.call(answer, cmd)
	if _, refused := err.(*refusal); refused {
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

// Put stores value under key. Others are sure to see it after the next Barrier. Both are words of visible ASCII
// without = ; and backslash. A key has at most 63 bytes; with a value and KVSName it has to fit one command of
// 1023, so 700 bytes of value always do. Keys that start with PMI_ are the launcher's. A key is put once: launchers
// differ in what a second put does.
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
	if _, refused := err.(*refusal); refused || err == nil && strings.EqualFold(m.get("found"), "false") {
		return "", fmt.Errorf("%w: %s", ErrNotFound, key)
	}
	if err != nil {
		return "", err
	}
	return m.get("value"), nil
}

// Barrier returns when every process of the job has called it, and what each had put before is there for all. When
// ctx ends first, the connection is closed: the launcher could not be told that this process no longer waits.
func (c *Client) Barrier(ctx context.Context) error { return c.wait(ctx) }

// GroupBarrier is Barrier among some ranks, this one among them; all name the same ranks and tag. It is
// [ErrNotSupported] under launchers that do not speak PMI 1.2, which Slurm does not. About 200 ranks fit.
func (c *Client) GroupBarrier(ctx context.Context, ranks []int, tag int) error {
	ranks = slices.Compact(slices.Sorted(slices.Values(ranks)))
	if !slices.Contains(ranks, c.rank) {
		return fmt.Errorf("pmi: barrier of ranks %v: this is rank %d", ranks, c.rank)
	}
	if tag < 0 {
		return fmt.Errorf("pmi: barrier with tag %d", tag)
	}
	if c.subversion < 2 {
		return fmt.Errorf("%w: a barrier of some ranks needs PMI 1.2, as ibrun and MPICH's mpiexec 4.3 speak it", ErrNotSupported)
	}
	if len(ranks) == 1 {
		return nil // and hydra has no word for it
	}
	words := make([]string, len(ranks))
	for i, rank := range ranks {
		words[i] = strconv.Itoa(rank)
	}
	return c.wait(ctx, "group", strings.Join(words, ",")+":"+strconv.Itoa(tag))
}

func (c *Client) wait(ctx context.Context, group ...string) error {
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	_, err := c.call("barrier_out", "barrier_in", group...)
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("pmi: barrier_in: %w", context.Cause(ctx))
	}
	return err
}

// Mapping returns the number of each rank's node, as the launcher tells it, or [ErrNotFound] where it does not.
// Slurm's is wrong where ranks were placed by an arbitrary distribution, so ranks of one node still have to try
// whether they share memory.
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

// NodeRanks returns the ranks on this node, ascending, this one among them, as [Client.Mapping] tells it.
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

// Abort asks the launcher to end the job with an exit code and, where it shows one, a message. The launcher does
// not answer; it kills this process too, sooner or later.
func (c *Client) Abort(code int, msg string) error {
	args := []string{"exitcode", strconv.Itoa(code)}
	if msg != "" {
		args = append(args, "message", escape(msg))
	}
	line := encode("abort", args...)
	if len(line) > maxCommand {
		line = append(bytesBeforeEscape(line[:maxCommand-1]), '\n')
	}
	return c.send("abort", line)
}

// bytesBeforeEscape drops backslashes at the end of line, one of which might be half an escape.
func bytesBeforeEscape(line []byte) []byte {
	for line[len(line)-1] == '\\' {
		line = line[:len(line)-1]
	}
	return line
}

// Finalize tells the launcher that this process may end from now on, and closes the connection. A process that ends
// without it is taken for a failure.
func (c *Client) Finalize() error {
	if _, err := c.call("finalize_ack", "finalize"); err != nil {
		return err
	}
	c.err = fmt.Errorf("pmi: finalized: %w", os.ErrClosed)
	return c.conn.Close()
}

// Close closes the connection. Unless Finalize came first, the launcher takes it for a failure of this process. Closing
// twice is an error and otherwise harmless.
func (c *Client) Close() error { return c.conn.Close() }

// refusal is an answer with rc other than zero. The connection is sound.
type refusal struct{ cmd, rc, msg string }

func (r *refusal) Error() string {
	return fmt.Sprintf("pmi: %s: launcher refuses: rc=%s %s", r.cmd, r.rc, unescape(r.msg))
}

// call sends a command and returns its answer.
func (c *Client) call(answer, cmd string, keyValues ...string) (message, error) {
	line := encode(cmd, keyValues...)
	limit := maxCommand
	if cmd == "init" {
		limit = maxInit
	}
	if len(line) > limit {
		return message{}, fmt.Errorf("pmi: %s takes %d bytes, launchers read at most %d", cmd, len(line), limit)
	}
	if err := c.send(cmd, line); err != nil {
		return message{}, err
	}
	m, err := c.receive(cmd, answer)
	if err != nil {
		return message{}, err
	}
	if rc := m.get("rc"); rc != "" && rc != "0" {
		return message{}, &refusal{cmd, rc, m.get("msg")}
	}
	return m, nil
}

func (c *Client) send(cmd string, line []byte) error {
	if c.err == nil {
		if _, err := c.conn.Write(line); err != nil {
			c.fail(cmd, err)
		}
	}
	return c.err
}

// receive returns the next message from the launcher, which has to be an answer to cmd.
func (c *Client) receive(cmd, answer string) (message, error) {
	m, err := c.in.next()
	switch {
	case err == io.EOF:
		c.fail(cmd, fmt.Errorf("launcher closed the connection: %w", io.ErrUnexpectedEOF))
	case err != nil:
		c.fail(cmd, err)
	case m.cmd != answer:
		c.fail(cmd, fmt.Errorf("%w: launcher answers %.40q, want %s", errWire, m.cmd, answer))
	}
	return m, c.err
}

// fail gives the connection up: question and answer are out of step.
func (c *Client) fail(cmd string, err error) {
	c.err = errors.Join(fmt.Errorf("pmi: %s: %w", cmd, err), ignoreClosed(c.conn.Close()))
}

// ignoreClosed is for closing what someone may have closed before.
func ignoreClosed(err error) error {
	if errors.Is(err, os.ErrClosed) {
		return nil
	}
	return err
}
