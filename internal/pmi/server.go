package pmi

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// The limits that the server announces, which are those of hydra and Slurm. They include C's terminating zero.
const (
	kvsNameMax = 256
	keyMax     = 64
	valueMax   = 1024
)

// Job describes a job to its server.
type Job struct {
	// Size is the number of ranks.
	Size int
	// KVSName names the key-value space. It is a word of up to 255 bytes, preferably short, and must differ from the names of
	// other jobs that programs may see at the same time.
	KVSName string
	// UniverseSize is how many ranks can run in total; 0 means Size.
	UniverseSize int
	// Mapping is the PMI_process_mapping, (vector,(node,nodes,ranks),...); empty means that all ranks are on one node.
	Mapping string
	// AppNums is the number of each rank's program; nil means 0 for all.
	AppNums []int
	// ToExchange is set if each node has its own server, which serves only the ranks of Node. It is called with the messages
	// for the job's [Exchange], in order, and must not wait for the answers, which are passed to [Server.Deliver].
	ToExchange func(*ExchangeMessage)
	Node       int
	// Events are called when ranks change their state.
	Events Events
}

// Events are callbacks. Serve calls them on its goroutine before it answers the rank. So the events of one rank are called in
// order, those of different ranks concurrently. A callback must not block. Any of them may be nil.
type Events struct {
	// Init: the rank has initialized PMI.
	Init func(rank int)
	// Finalize: the rank has finalized PMI and may exit.
	Finalize func(rank int)
	// Abort: the rank has called for the end of the job. It waits until it is killed.
	Abort func(rank, code int, msg string)
	// Lost: the connection of the rank ended without Finalize or Abort. This includes programs that do not use PMI; inited is
	// false for them.
	Lost func(rank int, inited bool)
}

// Server answers the ranks of one job. It stores at most 1 MiB of keys and values per rank. Any goroutine may call its methods
// at any time.
type Server struct {
	job   Job
	nodes []int  // by rank
	keys  *store // key-value space
	names *store // published names

	local int // how many ranks this server serves

	sendMu sync.Mutex // held while ToExchange is called, so that messages are sent in order

	mu           sync.Mutex
	barriers     map[string]*barrier // by key of the group: barriers that are not complete
	nameRequests map[int]*session    // by rank: the session that waits for the answer to a name request
	unsentPuts   []Put               // puts that were not sent to the exchange yet
	unsentBytes  int                 // their size
}

// NewServer returns a server for the job, or an error if job is invalid.
func NewServer(job Job) (*Server, error) {
	if job.Size < 1 {
		return nil, fmt.Errorf("pmi: job of %d ranks", job.Size)
	}
	if err := checkWord("name of key-value space", job.KVSName, kvsNameMax-1); err != nil {
		return nil, err
	}
	if job.AppNums != nil && len(job.AppNums) != job.Size {
		return nil, fmt.Errorf("pmi: program numbers for %d of %d ranks", len(job.AppNums), job.Size)
	}
	if job.UniverseSize == 0 {
		job.UniverseSize = job.Size
	}
	if job.Mapping == "" {
		job.Mapping = fmt.Sprintf("(vector,(0,1,%d))", job.Size)
	}
	if err := checkWord("process mapping", job.Mapping, valueMax-1); err != nil {
		return nil, err
	}
	nodes, err := parseMapping(job.Mapping, job.Size)
	if err != nil {
		return nil, err
	}
	s := &Server{job: job, nodes: nodes, keys: newStore(), names: newStore(),
		barriers: make(map[string]*barrier), nameRequests: make(map[int]*session)}
	for rank := range nodes {
		if s.serves(rank) {
			s.local++
		}
	}
	s.keys.put(-1, mappingKey, job.Mapping, false)
	return s, nil
}

// Serve answers one rank until its connection ends, and closes the connection. It returns why the connection ended: nil if the
// rank closed it or died. Commands that a rank sent before it died are still processed. A rank cannot disturb the others with
// what it sends. A barrier that a dead rank has not entered never completes; it is up to the caller to end the job. To make
// Serve return, close conn or its other end.
func (s *Server) Serve(rank int, conn io.ReadWriteCloser) error {
	if rank < 0 || rank >= s.job.Size || !s.serves(rank) {
		conn.Close()
		return fmt.Errorf("pmi: this server does not serve rank %d of %d", rank, s.job.Size)
	}
	c := &session{server: s, rank: rank, conn: conn}
	err := c.run()
	if s.removeSession(c) {
		err = fmt.Errorf("%w: the rank does not read its answers, of which %d wait", ErrMalformed, maxUnsent)
	}
	conn.Close()
	if c.state == uninitialized || c.state == initialized {
		if event := s.job.Events.Lost; event != nil {
			event(rank, c.state == initialized)
		}
	}
	if err == nil || clientGone(err) {
		return nil
	}
	return fmt.Errorf("pmi: rank %d: %w", rank, err)
}

// clientGone reports whether an answer could not be sent because the rank has closed the connection or died. Its last commands
// may still be unread.
func clientGone(err error) bool {
	return errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET)
}

// state is the state of a rank according to its commands.
type state int

const (
	uninitialized state = iota
	initialized
	finalized
	aborted
)

// session is the connection of one rank. Only the goroutine of Serve reads from it. Other goroutines write only the answers to
// barriers and name requests.
type session struct {
	server *Server
	rank   int
	conn   io.ReadWriteCloser
	state  state

	writing  sync.Mutex
	barriers int  // how many barriers the rank waits in; guarded by server.mu
	unsent   int  // answers of other goroutines that the rank has not read yet; guarded by server.mu
	unread   bool // unsent has exceeded maxUnsent; guarded by server.mu
}

// maxUnsent is how many answers to barriers and name requests wait at most until the rank reads. Few ranks ever have one: they
// wait for an answer before the next request, and the buffer of the connection holds many.
const maxUnsent = 64

// answerLater sends an answer in a goroutine, so that a rank that does not read delays nothing else. It closes the connection,
// which makes Serve return, if the answer cannot be sent, or if too many wait already.
func (c *session) answerLater(send func() error) {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	if c.unsent == maxUnsent {
		c.unread = true
		c.conn.Close()
		return
	}
	c.unsent++
	go func() {
		if err := send(); err != nil && !clientGone(err) {
			c.conn.Close()
		}
		c.server.mu.Lock()
		defer c.server.mu.Unlock()
		c.unsent--
	}()
}

func (c *session) run() error {
	in := reader{src: c.conn}
	for {
		m, err := in.next()
		if err == io.EOF {
			return nil
		}
		if err == nil {
			if err = c.handle(&m); clientGone(err) {
				continue
			}
		}
		if err != nil {
			return err
		}
	}
}

// handle answers one command. An error ends the connection.
func (c *session) handle(m *message) error {
	job := &c.server.job
	switch m.cmd {
	case "initack":
		return c.initAck(m)
	case "init":
		return c.init(m)
	case "get_maxes":
		return c.answer("maxes", "kvsname_max", strconv.Itoa(kvsNameMax),
			"keylen_max", strconv.Itoa(keyMax), "vallen_max", strconv.Itoa(valueMax))
	case "get_universe_size":
		return c.answer("universe_size", "size", strconv.Itoa(job.UniverseSize))
	case "get_appnum":
		appnum := 0
		if job.AppNums != nil {
			appnum = job.AppNums[c.rank]
		}
		return c.answer("appnum", "appnum", strconv.Itoa(appnum))
	case "get_my_kvsname":
		return c.answer("my_kvsname", "kvsname", job.KVSName)
	case "put":
		return c.put(m)
	case "get":
		return c.get(m)
	case "barrier_in":
		return c.barrierIn(m)
	case "publish_name", "unpublish_name", "lookup_name":
		return c.name(m)
	case "spawn":
		return c.refuse("spawn_result", "this launcher starts no further processes")
	case "abort":
		return c.abort(m)
	case "finalize":
		c.state = finalized
		if event := job.Events.Finalize; event != nil {
			event(c.rank)
		}
		return c.answer("finalize_ack")
	}
	return fmt.Errorf("%w: unknown command %.40q", ErrMalformed, m.cmd)
}

// answer sends an answer with rc=0.
func (c *session) answer(cmd string, keyValues ...string) error {
	return c.write(encode(cmd, append([]string{"rc", "0"}, keyValues...)...))
}

// refuse sends an answer with rc=-1 and the reason. Spaces of the reason become underscores, because some clients do not know
// escapes.
func (c *session) refuse(cmd, why string, keyValues ...string) error {
	why = strings.ReplaceAll(why, " ", "_")
	return c.write(encode(cmd, append([]string{"rc", "-1", "msg", why}, keyValues...)...))
}

func (c *session) write(line []byte) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	_, err := c.conn.Write(line)
	return err
}

// initAck sends rank and size to a process that has connected over TCP.
func (c *session) initAck(m *message) error {
	if id := m.get("pmiid"); id != strconv.Itoa(c.rank) {
		return fmt.Errorf("%w: pmiid=%.20q on the connection of rank %d", ErrMalformed, id, c.rank)
	}
	lines := encode("initack", "rc", "0")
	lines = append(lines, encode("set", "size", strconv.Itoa(c.server.job.Size))...)
	lines = append(lines, encode("set", "rank", strconv.Itoa(c.rank))...)
	return c.write(append(lines, encode("set", "debug", "0")...))
}

func (c *session) init(m *message) error {
	if m.get("pmi_version") != "1" {
		return c.refuse("response_to_init", "this launcher speaks version 1", "pmi_version", "1", "pmi_subversion", "2")
	}
	if c.state != initialized {
		c.state = initialized
		if event := c.server.job.Events.Init; event != nil {
			event(c.rank)
		}
	}
	// Like hydra: a client that asks for 1.1 or 1.2 may use 1.2.
	return c.answer("response_to_init", "pmi_version", "1", "pmi_subversion", "2")
}

// checkKVS returns an error if the message names the key-value space of another job. A message need not have a name.
func (c *session) checkKVS(m *message) error {
	if name := m.get("kvsname"); name != "" && name != c.server.job.KVSName {
		return errors.New("no such kvsname")
	}
	return nil
}

func (c *session) put(m *message) error {
	key, value := m.get("key"), m.get("value")
	why := ""
	switch err := c.checkKVS(m); {
	case err != nil:
		why = err.Error()
	case key == "" || len(key) >= keyMax:
		why = "key is empty or too long"
	case strings.HasPrefix(key, "PMI_"):
		why = "keys with PMI_ prefix are reserved"
	case len(value) >= valueMax:
		why = "value is too long"
	case !c.server.keys.put(c.rank, key, value, true), !c.server.recordPut(c.rank, key, value):
		why = "this rank has put too many bytes"
	}
	if why != "" {
		return c.refuse("put_result", why)
	}
	return c.answer("put_result")
}

func (c *session) get(m *message) error {
	if err := c.checkKVS(m); err != nil {
		return c.refuse("get_result", err.Error())
	}
	value, ok := c.server.keys.get(m.get("key"))
	if !ok {
		return c.refuse("get_result", "key not found")
	}
	return c.answer("get_result", "value", value)
}

// name publishes, removes or finds a name.
func (c *session) name(m *message) error {
	s := c.server
	n := &NameRequest{Rank: c.rank, Cmd: m.cmd, Service: []byte(m.get("service")), Port: []byte(m.get("port"))}
	if s.job.ToExchange == nil {
		n.resolve(s.names)
		return n.reply(c)
	}
	s.mu.Lock()
	s.nameRequests[c.rank] = c
	s.mu.Unlock()
	s.sendMu.Lock()
	defer s.sendMu.Unlock()
	s.job.ToExchange(&ExchangeMessage{Name: n})
	return nil
}

func (c *session) abort(m *message) error {
	code, err := m.number("exitcode", 1)
	if err != nil {
		code = 1 // the job ends in any case
	}
	c.state = aborted
	if event := c.server.job.Events.Abort; event != nil {
		event(c.rank, code, unescape(m.get("message")))
	}
	return nil
}
