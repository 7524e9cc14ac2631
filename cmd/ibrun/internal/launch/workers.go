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

// endTimeout is how long nodes that the coordinator has started may take to end after the job, and
// failedEndTimeout after one that has failed.
const (
	endTimeout       = 3 * time.Second
	failedEndTimeout = time.Second
)

// secretBytes is the length of the secret that the coordinator makes for a job.
const secretBytes = 32

// startedWorkers are the workers that the coordinator has started, and the programs that it builds
// for them. A worker is the ibrun of another node.
type startedWorkers struct {
	job      *job
	start    protocol.NodeStart // the start message, but for the number of the node
	listener *control.Listener  // with Slurm: the workers connect to it
	peers    coordinator.Peers
	close    func(limit time.Duration) // ends the workers
	linger   time.Duration             // how long the metrics of their nodes may outlast the job
	programs []program
	built    chan error // receives whether all programs were built
}

// startWorkers starts a worker on each node of an allocation but this one, and builds the programs
// meanwhile. here is the name of this node, and args is the command line. The caller must call end.
func startWorkers(w startedWatcher, a *allocation.Allocation, here string, j *job, args, env []string,
	s console.Streams) (*startedWorkers, error) {
	programs, err := findPrograms(j.programs, env)
	if err != nil {
		return nil, err
	}
	assignment := j.place.assignment
	if err := checkLibraries(programs, j.programs, assignment.Size()); err != nil {
		return nil, err
	}
	sw := &startedWorkers{job: j, programs: programs, built: make(chan error, 1)}
	if err := sw.makeStart(a, here, args, env); err != nil {
		return nil, err
	}
	secret := auth.NewSecret(sw.start.Secret)
	options := remote.Options{Slurm: a.Starter == allocation.Slurm, Groups: a.Groups, Lookup: cli.Lookup(env),
		Timeout: j.join.Timeout, Message: sw.message, FailureGrace: j.run.FailureGrace, Verbose: j.run.Verbose, JSON: j.logJSON}
	if options.Program, err = os.Executable(); err != nil {
		return nil, fmt.Errorf("find the path of ibrun: %w", err)
	}
	if options.Agent = j.start.Agent; options.Agent != nil {
		options.Slurm = false
	}
	for node := 1; node < j.place.nodes; node++ {
		at := assignment.Host(node)
		options.Hosts = append(options.Hosts, remote.Host{Node: node, Name: at.Name, User: at.User, Group: at.Group})
	}
	if options.Slurm {
		if err := sw.listen(secret, options.Hosts); err != nil {
			return nil, err
		}
	}
	events, end, err := startRemote(options)
	if err != nil {
		return nil, err
	}
	sw.close = end
	sw.peers = coordinator.Peers{Secret: &secret, Starts: events, Listener: sw.listener, Hosts: sw.hosts(here),
		Programs: sw.programFiles, Linger: &sw.linger}
	go func() { sw.built <- buildAll(w, sw.programs, j, s) }()
	return sw, nil
}

// end ends the workers. code and err are the result of the job; an err means that it has not run.
func (sw *startedWorkers) end(code int, err error) {
	switch {
	case err != nil:
		sw.close(0)
	case code != 0: // the connection to a node that is lost does not end by itself
		sw.close(failedEndTimeout + sw.linger)
	default:
		sw.close(endTimeout + sw.linger)
	}
	if sw.listener != nil && err != nil {
		_ = sw.listener.Close() // nothing depends on it any more
	}
}

// makeStart makes the start message for the workers of an allocation.
func (sw *startedWorkers) makeStart(a *allocation.Allocation, here string, args, env []string) error {
	secret := make([]byte, secretBytes)
	rand.Read(secret)
	dir, err := absolute(".")
	if err != nil {
		return err
	}
	sw.start = protocol.NodeStart{Protocol: protocol.NodeProtocol, Version: buildinfo.Version(), Secret: secret,
		Assignment: sw.job.place.assignment, Coordinator: here, Args: args, Env: env, Dir: protocol.Text(dir),
		JoinTimeout: sw.job.join.Timeout, Scheduled: a.Starter == allocation.Slurm}
	if file := sw.job.place.policy.FilePath; file != "" {
		text, err := os.ReadFile(file) // it was read before, so it is not too large
		if err != nil {
			return exitcode.Errorf(exitcode.UsageError, "read the rank file: %w", err)
		}
		sw.start.RankFile = string(text)
	}
	return nil
}

// message returns the start message of a node, or of all nodes for 0.
func (sw *startedWorkers) message(node int) ([]byte, error) {
	start := sw.start
	start.Node = node
	return start.Encode()
}

// listen opens the port to which the nodes connect, at the address from which this host reaches the
// first of them.
func (sw *startedWorkers) listen(secret auth.Secret, hosts []remote.Host) error {
	security, err := control.NewSecurity(secret, sw.job.join.Encrypt)
	if err != nil {
		return err
	}
	address, err := remote.AddressToward(hosts[0].Name)
	if err != nil {
		return fmt.Errorf("find the address at which %s reaches this host: %w", hosts[0].Name, err)
	}
	sw.listener, err = control.Listen(address, security, sw.job.join.Heartbeat)
	if err == nil {
		sw.start.Rendezvous = sw.listener.Addr().String()
	}
	return err
}

// hosts returns the names by which the hosts of all nodes are reached.
func (sw *startedWorkers) hosts(here string) []string {
	assignment := sw.job.place.assignment
	names := assignment.Names(here)
	if first := assignment.Host(0); first != nil && !slices.Contains([]string{"localhost", "127.0.0.1", "::1"}, first.Name) {
		names[0] = first.Name // as the other hosts probably call it
	}
	return names
}

// programFiles returns the files of the programs, when they are built.
func (sw *startedWorkers) programFiles() ([]protocol.ProgramFile, error) {
	if err := <-sw.built; err != nil {
		return nil, err
	}
	var files []protocol.ProgramFile
	for _, p := range sw.programs {
		f := protocol.ProgramFile{Path: protocol.Text(p.path), Built: p.isGo}
		if p.isGo || sw.job.start.Copy {
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
