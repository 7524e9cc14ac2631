package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/placement"
)

// ErrHelp says that the command line asks for [Usage].
var ErrHelp = errors.New("help was asked for")

// MaxRanks is the largest number of ranks that a job may ask for.
const MaxRanks = 1 << 20

// Options is a command line that was understood: the job to start, and how to watch it.
type Options struct {
	// Programs are the programs of the job in the order of their ranks. There is at least one.
	Programs []Program
	// Policy says where ranks run and what they are bound to. Its rank file has not been read.
	Policy placement.Policy
	// Label puts the rank before each line of output.
	Label bool
	// Output is the pattern of the file that a rank's output goes to, with %r for the rank and %h for the host.
	// Empty: to ibrun's own output.
	Output string
	// Transport lists the transports that the ranks may use, and Interfaces the network interfaces for TCP, as their
	// variables IBRUN_TRANSPORT and IBRUN_TCP_INTERFACES say it. Empty: the ranks choose.
	Transport, Interfaces string
	// Metrics is where Prometheus can ask what the ranks of this node do: host:port, a port, or a path. Empty: nowhere.
	// MetricsSD is the file that tells it so, or empty.
	Metrics, MetricsSD string
	// Report tells at the end where the time went, also as the files ReportTo, each FILE.html or FILE.json. Without any these are
	// two in the working directory that are named after the job, and with ReportBare none.
	Report, ReportBare bool
	ReportTo           []string
	// Profile and Trace are the files to write profiles and a trace of all ranks to. Empty: none.
	Profile, Trace string
	// Psets are process sets that the user defines, in the order of the command line; no two have the same name.
	Psets []Pset
	// Timeout ends the job after that time. 0: never.
	Timeout time.Duration
	// DryRun prints where the ranks would run, and starts nothing.
	DryRun bool
	// Verbose says on stderr what is done.
	Verbose bool
	// Delve and GDB are the ranks that start under a debugger.
	Delve, GDB Ranges
	// Node is the number of this node among the Nodes nodes of the job, on each of which ibrun is started. Nodes 0 or 1:
	// the job runs here alone.
	Node, Nodes int
	// Rendezvous is where node 0 listens, host:port.
	Rendezvous string
	// NodeName is the name of this node. Empty: the host's.
	NodeName string
	// SecretFile is the file by which nodes know each other.
	SecretFile string
	// JoinTimeout is how long the nodes wait for each other. 0: as long as is usual.
	JoinTimeout time.Duration
}

// Program is one program of a job.
type Program struct {
	// Ranks is how many ranks run it. 0: the command line did not say.
	Ranks int
	// Args are the program, a Go package directory or a .go file, and its arguments.
	Args []string
	// Dir is the directory it runs in. Empty: ibrun's own.
	Dir string
	// Env are variables, NAME=VALUE, on top of ibrun's own.
	Env []string
}

// Parse reads the command line that follows the program's name. getenv looks for the environment forms of flags and
// for the variables that -x names. Any error but [ErrHelp] means that the command was used wrongly.
func Parse(args []string, getenv func(string) string) (*Options, error) {
	o := &Options{}
	for {
		end := slices.Index(args, ":")
		words := args
		if end >= 0 {
			words = args[:end]
		}
		p, err := o.parseProgram(words, getenv)
		if err != nil {
			return nil, err
		}
		o.Programs = append(o.Programs, p)
		if end < 0 {
			break
		}
		args = args[end+1:]
	}
	for _, p := range o.Programs {
		if p.Ranks == 0 && len(o.Programs) > 1 {
			return nil, fmt.Errorf("of several programs each needs its own -n: %s has none", p.Args[0])
		}
	}
	if err := o.checkNodes(); err != nil {
		return nil, err
	}
	if o.MetricsSD != "" && o.Metrics == "" {
		return nil, errors.New("--metrics-sd says where metrics are, and needs --metrics")
	}
	return o, nil
}

// parseProgram reads one program with the flags before it.
func (o *Options) parseProgram(words []string, getenv func(string) string) (Program, error) {
	var p Program
	job := o.flags()
	known, later := append(p.flags(getenv), job...), []flag(nil)
	if len(o.Programs) > 0 {
		known, later = p.flags(getenv), job
	}
	given, words, err := readFlags(words, known, later)
	if err != nil {
		return p, err
	}
	for i := range known {
		f := &known[i]
		if slices.ContainsFunc(given, func(w flagWord) bool { return w.flag == f }) {
			continue // the command line overrides it, also where flags add up
		}
		if err := f.setFromEnvironment(getenv); err != nil {
			return p, err
		}
	}
	for _, w := range given {
		if err := w.flag.set(w.value); err != nil {
			return p, fmt.Errorf("%s %s: %w", dashed(w.name), w.value, err)
		}
	}
	if len(words) == 0 || words[0] == "" {
		return p, errors.New("no program to start: ibrun -n 4 PROGRAM [ARGUMENT...]")
	}
	p.Args = words
	return p, nil
}

// flagWord is a flag on the command line, by the name that was typed.
type flagWord struct {
	flag        *flag
	name, value string
}

// readFlags reads the known flags at the beginning of words, and returns the words behind them. Those that are known later must
// not be among them.
func readFlags(words []string, known, later []flag) (given []flagWord, rest []string, err error) {
	for len(words) > 0 && len(words[0]) > 1 && words[0][0] == '-' {
		word := words[0]
		words = words[1:]
		if word == "--" {
			break
		}
		name, value, hasValue := strings.Cut(strings.TrimPrefix(word[1:], "-"), "=")
		f := find(known, name)
		switch {
		case f != nil:
		case name == "h" || name == "help":
			return nil, nil, ErrHelp
		case find(later, name) != nil:
			return nil, nil, fmt.Errorf("%s concerns the whole job: write it before the first program", word)
		case placement.Ambiguous()[name] != "":
			return nil, nil, fmt.Errorf("unknown flag %s: %s", word, placement.Ambiguous()[name])
		default:
			return nil, nil, fmt.Errorf("unknown flag %s; the nearest known one is %s", word, dashed(nearest(name, known)))
		}
		switch {
		case hasValue:
		case f.arg == "":
			value = "true"
		case len(words) == 0:
			return nil, nil, fmt.Errorf("%s needs a value: %s %s", word, word, f.arg)
		default:
			value, words = words[0], words[1:]
		}
		given = append(given, flagWord{f, name, value})
	}
	return given, words, nil
}

// nearest returns the name that takes the fewest insertions, deletions and replacements of letters to become word.
func nearest(word string, known []flag) string {
	var names []string
	for _, f := range known {
		if f.help != "" {
			names = append(names, f.names...)
		}
	}
	return slices.MinFunc(names, func(a, b string) int { return distance(word, a) - distance(word, b) })
}

func distance(a, b string) int {
	row := make([]int, len(b)+1) // of the table of distances between the beginnings of a and b
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}
