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

// Limits the server tells, C's closing zero included: the numbers of hydra and Slurm.
const (
	kvsNameMax = 256
	keyMax     = 64
	valueMax   = 1024
)

// Job describes a job to its server.
type Job struct {
	// Size is the number of ranks.
	Size int
	// KVSName names the key-value space: a word of up to 255 bytes, short is better, different from that of every other
	// job that programs might see at the same time.
	KVSName string
	// UniverseSize is how many ranks there is room for; 0 means Size.
	UniverseSize int
	// Mapping is the PMI_process_mapping, (vector,(node,nodes,ranks),...); empty means that all ranks are on one node.
	Mapping string
	// AppNums is the number of each rank's program; nil means 0 for all.
	AppNums []int
	// Up is set where each node has a server of its own, which serves only the ranks of Node. It is given what the others
	// have to know, for the job's [Exchange], in order; [Server.Deliver] takes the answers. It must not wait for them.
	Up   func(*Parcel)
	Node int
	// Events tells what the ranks do.
	Events Events
}

// Events are called by Serve, on its goroutine, before the rank gets its answer; so those of different ranks come
// at the same time, those of one rank in order. They must not block. Any may be nil.
type Events struct {
	// Init says that a rank has begun to speak PMI.
	Init func(rank int)
	// Finalize says that a rank may end from now on.
	Finalize func(rank int)
	// Abort says that a rank wants the job to end. The rank waits to be killed.
	Abort func(rank, code int, msg string)
	// Lost says that a rank's connection ended without Finalize or Abort. Programs that do not speak PMI at all get
	// here too, with inited false.
	Lost func(rank int, inited bool)
}

// Server answers the ranks of one job. Its memory is bounded by 1 MiB of keys and values per rank. All methods may be
// called at any time by any goroutine.
type Server struct {
	job   Job
	nodes []int  // by rank
	keys  *store // key-value space
	names *store // published names

	local int // how many ranks this server serves

	telling sync.Mutex // held while Up is called, so that parcels go in order

	mu        sync.Mutex
	barriers  map[string]*barrier // those that wait for someone
	asking    map[int]*session    // by rank: who waits for an answer about a name
	news      []Put               // what other servers do not know yet
	newsBytes int
}

// NewServer makes a server, or says what is wrong with job.
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
		barriers: make(map[string]*barrier), asking: make(map[int]*session)}
	for rank := range nodes {
		if s.serves(rank) {
			s.local++
		}
	}
	s.keys.put(-1, mappingKey, job.Mapping, false)
	return s, nil
}

// Serve answers one rank until its connection ends, closes it, and returns why it ended: nil if the rank closed it
// or died. What a rank said before it died is heard to the end. Nothing a rank sends disturbs the others. A rank that is
// gone is missing from every barrier that it has not reached; ending the job is up to the caller. To end a Serve, close
// conn or the other side of it.
func (s *Server) Serve(rank int, conn io.ReadWriteCloser) error {
	if rank < 0 || rank >= s.job.Size || !s.serves(rank) {
		conn.Close()
		return fmt.Errorf("pmi: rank %d of %d is not served here", rank, s.job.Size)
	}
	c := &session{server: s, rank: rank, conn: conn}
	err := c.run()
	s.leave(c)
	conn.Close()
	if c.state == silent || c.state == inited {
		if event := s.job.Events.Lost; event != nil {
			event(rank, c.state == inited)
		}
	}
	if err == nil || unheard(err) {
		return nil
	}
	return fmt.Errorf("pmi: rank %d: %w", rank, err)
}

// unheard tells whether an answer was not taken because the rank has gone. Its last words may still be there to be read.
func unheard(err error) bool {
	return errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET)
}

// state is what a rank has said about itself.
type state int

const (
	silent state = iota
	inited
	finalized
	aborted
)

// session is one rank's connection. Serve's goroutine reads; others write only the answer to a barrier.
type session struct {
	server *Server
	rank   int
	conn   io.ReadWriteCloser
	state  state

	writing sync.Mutex
	waits   int // barriers this session waits in, guarded by server.mu
}

func (c *session) run() error {
	in := reader{src: c.conn}
	for {
		m, err := in.next()
		if err == io.EOF {
			return nil
		}
		if err == nil {
			if err = c.handle(&m); unheard(err) {
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
	return fmt.Errorf("%w: unknown command %.40q", errWire, m.cmd)
}

// answer sends an answer with rc=0.
func (c *session) answer(cmd string, keyValues ...string) error {
	return c.write(encode(cmd, append([]string{"rc", "0"}, keyValues...)...))
}

// refuse sends an answer with rc=-1 and the reason, whose spaces become underscores for readers without escapes.
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

// initAck tells a process that came over TCP where it belongs.
func (c *session) initAck(m *message) error {
	if id := m.get("pmiid"); id != strconv.Itoa(c.rank) {
		return fmt.Errorf("%w: pmiid=%.20q on the connection of rank %d", errWire, id, c.rank)
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
	if c.state != inited {
		c.state = inited
		if event := c.server.job.Events.Init; event != nil {
			event(c.rank)
		}
	}
	// As hydra does: whoever asks for 1.1 or 1.2 may use 1.2.
	return c.answer("response_to_init", "pmi_version", "1", "pmi_subversion", "2")
}

// checkKVS refuses another job's key-value space. A message may leave the name out.
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
	case !c.server.keys.put(c.rank, key, value, true), !c.server.note(c.rank, key, value):
		why = "this rank has put too much"
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

// name publishes, withdraws or looks up a name.
func (c *session) name(m *message) error {
	s := c.server
	n := &Name{Rank: c.rank, Cmd: m.cmd, Service: []byte(m.get("service")), Port: []byte(m.get("port"))}
	if s.job.Up == nil {
		n.settle(s.names)
		return n.answer(c)
	}
	s.mu.Lock()
	s.asking[c.rank] = c
	s.mu.Unlock()
	s.telling.Lock()
	defer s.telling.Unlock()
	s.job.Up(&Parcel{Name: n})
	return nil
}

func (c *session) abort(m *message) error {
	code, err := m.number("exitcode", 1)
	if err != nil {
		code = 1 // it wants to end; how it says so does not matter
	}
	c.state = aborted
	if event := c.server.job.Events.Abort; event != nil {
		event(c.rank, code, unescape(m.get("message")))
	}
	return nil
}
