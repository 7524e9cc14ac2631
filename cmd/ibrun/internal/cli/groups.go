package cli

import "time"

// This file has the groups of Options. Package launch takes some as they are.

// Network says how ranks reach each other.
type Network struct {
	// Transports lists the transports that the ranks may use, and Interfaces the network interfaces
	// for TCP, in the syntax of IBRUN_TRANSPORT and IBRUN_TCP_INTERFACES. Empty: the ranks choose.
	Transports, Interfaces string
	// Encrypt makes the nodes, and the ranks on different nodes, encrypt what they send each other.
	Encrypt bool
	// Checksum says whether messages over TCP between machines have checksums: on or off. Empty:
	// the environment decides.
	Checksum string
}

// Hosts says on which hosts the job runs. If nothing is given, ibrun looks for an allocation.
type Hosts struct {
	// List names hosts and how many ranks each may have, and Files are files with such lists.
	List  string
	Files []string
}

// Start says how ibrun starts the other nodes of a job.
type Start struct {
	// Agent is the command that starts ibrun on another host, to which the host and a command are
	// appended. Nil: srun or ssh.
	Agent []string
	// Copy sends the files of the programs to the hosts that lack them. Those that ibrun has built
	// are always sent.
	Copy bool
}

// Node says which node this is, and how it joins the others.
type Node struct {
	// Number is the number of this node, from 0, and Count is how many nodes the job has. Count 0
	// or 1: the job runs on this node only.
	Number, Count int
	// Name is the name of this node. Empty: the host's.
	Name string
	// Rendezvous is the address where node 0 listens, host:port.
	Rendezvous string
	// SecretFile is the file with the secret by which nodes authenticate each other.
	SecretFile string
	// JoinTimeout is how long the nodes wait for each other. 0: the default.
	JoinTimeout time.Duration
	// Heartbeat is how long a node may be silent before it is lost. 0: the default. The value of
	// node 0 applies to the job.
	Heartbeat time.Duration
}

// Limits says how long the job may run, and how long its ranks may after they were asked to end.
type Limits struct {
	// Timeout limits the time that the job may run. 0: no limit.
	Timeout time.Duration
	// Grace is how long ranks may run on after a signal of the user or Timeout has asked them to
	// end, FailureGrace after the job has failed. Then they are killed. 0: they are killed
	// immediately.
	Grace, FailureGrace time.Duration
	// GraceGiven means that the user has set Grace.
	GraceGiven bool
}

// Output says what happens to the output of the ranks.
type Output struct {
	// Label puts the rank before each line.
	Label bool
	// Pattern is the file name pattern of a rank's output, with %r for the rank and %h for the
	// host, relative to the working directory of ibrun. Empty: the output goes to ibrun's own.
	Pattern string
}

// Metrics says where the metrics of this node's ranks are served.
type Metrics struct {
	// Address is host:port, a port, or a path. Empty: no metrics are served.
	Address string
	// DiscoveryFile is the Prometheus discovery file for that address, or empty. %h in it is the
	// host, and %% a percent sign.
	DiscoveryFile string
	// Hosts are further names of this host, for which requests for metrics are answered, and
	// domains that begin with a dot.
	Hosts []string
	// Linger is how long the metrics wait for a scrape after the end of the job. Nil: as earlier
	// scrapes suggest.
	Linger *time.Duration
}

// Report says whether a report is printed when the job ends, and to which files it is written.
type Report struct {
	Enabled bool
	// Files are names that end in .html or .json. Empty: two files named after the job in the
	// working directory, or none if Bare is set.
	Files []string
	Bare  bool
}

// Recordings are the files to write profiles and a trace of all ranks to. Empty: none.
type Recordings struct{ Profile, Trace string }

// Debug has the ranks that start under a debugger.
type Debug struct{ Delve, GDB Ranges }

// Any reports whether there are such ranks.
func (d *Debug) Any() bool { return len(d.Delve)+len(d.GDB) > 0 }
