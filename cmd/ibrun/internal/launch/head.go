package launch

import (
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/allocation"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/cli"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/control"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/console"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/coordinator"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/exitcode"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/protocol"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/remote"
	"github.com/ibrun/ibrun/internal/auth"
	"github.com/ibrun/ibrun/internal/buildinfo"
)

// endTimeout is how long nodes that node 0 has started may take to end after the job, and failedEndTimeout after one that has
// failed.
const (
	endTimeout       = 3 * time.Second
	failedEndTimeout = time.Second
)

// secretBytes is the length of the secret that the head makes for a job.
const secretBytes = 32

// head is an ibrun that starts the other nodes of its job. It is node 0.
type head struct {
	opts     *cli.Options
	alloc    *allocation.Allocation
	start    protocol.NodeStart // the start message, but for the number of the node
	listener *control.Listener  // with Slurm: the other nodes connect to it
	peers    coordinator.Peers
	close    func(limit time.Duration) // ends the other nodes
	linger   time.Duration             // how long the metrics of these nodes may outlast the job
	programs []program
	built    chan error // receives whether all programs were built
}

// startHead starts the nodes of an allocation other than node 0, and builds the programs meanwhile. args is the command line. The
// caller must call end.
func startHead(w startedWatcher, a *allocation.Allocation, here string, o *cli.Options, args, env []string,
	s console.Streams) (*head, error) {
	programs, err := findPrograms(o, env)
	if err != nil {
		return nil, err
	}
	if err := checkLibraries(programs, o, o.Assignment.Size()); err != nil {
		return nil, err
	}
	h := &head{opts: o, alloc: a, programs: programs, built: make(chan error, 1)}
	if err := h.makeStart(here, args, env); err != nil {
		return nil, err
	}
	secret := auth.NewSecret(h.start.Secret)
	options := remote.Options{Slurm: a.Starter == allocation.Slurm, Groups: a.Groups, Lookup: cli.Lookup(env),
		Timeout: coordinator.JoinTimeout(o), Message: h.message, FailureGrace: o.FailureGrace,
		Verbose: o.Verbose, JSON: o.LogJSON}
	if options.Program, err = os.Executable(); err != nil {
		return nil, fmt.Errorf("find the path of ibrun: %w", err)
	}
	if options.Agent = o.LaunchAgent; options.Agent != nil {
		options.Slurm = false
	}
	for node := 1; node < o.Nodes; node++ {
		at := o.Assignment.Host(node)
		options.Hosts = append(options.Hosts, remote.Host{Node: node, Name: at.Name, User: at.User, Group: at.Group})
	}
	if options.Slurm {
		if err := h.listen(secret, options.Hosts); err != nil {
			return nil, err
		}
	}
	events, end, err := startNodes(options)
	if err != nil {
		return nil, err
	}
	h.close = end
	h.peers = coordinator.Peers{Secret: &secret, Starts: events, Listener: h.listener, Hosts: h.hosts(here),
		Programs: h.programFiles, Linger: &h.linger}
	go func() { h.built <- buildAll(w, h.programs, o, s) }()
	return h, nil
}

// end ends the nodes that were started. code and err are the result of the job; an err means that it has not run.
func (h *head) end(code int, err error) {
	switch {
	case err != nil:
		h.close(0)
	case code != 0: // the connection to a node that is lost does not end by itself
		h.close(failedEndTimeout + h.linger)
	default:
		h.close(endTimeout + h.linger)
	}
	if h.listener != nil && err != nil {
		_ = h.listener.Close() // nothing depends on it any more
	}
}

// makeStart makes the start message.
func (h *head) makeStart(here string, args, env []string) error {
	secret := make([]byte, secretBytes)
	rand.Read(secret)
	dir, err := absolute(".")
	if err != nil {
		return err
	}
	h.start = protocol.NodeStart{Protocol: protocol.NodeProtocol, Version: buildinfo.Version(), Secret: secret,
		Assignment: h.opts.Assignment, Head: here, Args: args, Env: env, Dir: protocol.Text(dir),
		JoinTimeout: coordinator.JoinTimeout(h.opts), Scheduled: h.alloc.Starter == allocation.Slurm}
	if h.opts.Policy.FilePath != "" {
		text, err := os.ReadFile(h.opts.Policy.FilePath) // it was read before, so it is not too large
		if err != nil {
			return exitcode.Errorf(exitcode.UsageError, "read the rank file: %w", err)
		}
		h.start.RankFile = string(text)
	}
	return nil
}

// message returns the start message of a node, or of all nodes for 0.
func (h *head) message(node int) ([]byte, error) {
	start := h.start
	start.Node = node
	return start.Encode()
}

// listen opens the port to which the nodes connect, at the address from which this host reaches the first of them.
func (h *head) listen(secret auth.Secret, hosts []remote.Host) error {
	security, err := control.NewSecurity(secret, h.opts.Encrypt)
	if err != nil {
		return err
	}
	address, err := remote.AddressToward(hosts[0].Name)
	if err != nil {
		return fmt.Errorf("find the address at which %s reaches this host: %w", hosts[0].Name, err)
	}
	h.listener, err = control.Listen(address, security, coordinator.Heartbeat(h.opts))
	if err == nil {
		h.start.Rendezvous = h.listener.Addr().String()
	}
	return err
}

// hosts returns the names by which the hosts of all nodes are reached.
func (h *head) hosts(here string) []string {
	names := h.opts.Assignment.Names(here)
	if first := h.opts.Assignment.Host(0); first != nil && !slices.Contains([]string{"localhost", "127.0.0.1", "::1"}, first.Name) {
		names[0] = first.Name // as the other hosts probably call it
	}
	return names
}

// programFiles returns the files of the programs, when they are built.
func (h *head) programFiles() ([]protocol.ProgramFile, error) {
	if err := <-h.built; err != nil {
		return nil, err
	}
	var files []protocol.ProgramFile
	for _, p := range h.programs {
		f := protocol.ProgramFile{Path: protocol.Text(p.path), Built: p.isGo}
		if p.isGo || h.opts.Copy {
			var err error
			if f.SHA256, f.Size, err = hashFile(p.path); err != nil {
				return nil, fmt.Errorf("copy %s to the other hosts: %w", p.path, err)
			}
		}
		files = append(files, f)
	}
	return files, nil
}

// hashFile returns the SHA-256 hash and the length of a file.
func hashFile(path string) (sum []byte, size int64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close() // it was only read
	hash := sha256.New()
	size, err = io.Copy(hash, f)
	return hash.Sum(nil), size, err
}
