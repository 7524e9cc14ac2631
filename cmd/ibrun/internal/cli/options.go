package cli

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/cli/foreign"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/manual"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/placement"
)

// ErrHelp reports that the command line requests the text of [Page], and ErrVersion that it requests the version.
var (
	ErrHelp    = errors.New("help requested")
	ErrVersion = errors.New("version requested")
)

// deadlockReport is the default of --deadlock-report.
const deadlockReport = 10 * time.Second

// MaxRanks is the largest number of ranks of a job.
const MaxRanks = placement.MaxRanks

// Options is a parsed command line: the job to start, and how to monitor it. Nothing writes it
// after Parse: package launch converts it to the settings of its parts.
type Options struct {
	// Programs are the programs of the job in the order of their ranks. There is at least one.
	Programs []Program
	// Policy selects where ranks run and what they are bound to. Its rank file has not been read
	// yet.
	Policy placement.Policy
	// Psets are the process sets that the user defines, in the order of the command line. Their
	// names are unique.
	Psets   []Pset
	Network Network
	Hosts   Hosts
	Start   Start
	Node    Node
	Limits  Limits
	// Check makes the ranks compare their calls, and ends a job that is deadlocked.
	Check bool
	// DeadlockReport is how long all ranks must have waited for each other before that is reported.
	// 0: never.
	DeadlockReport time.Duration
	Output         Output
	Metrics        Metrics
	Report         Report
	Recordings     Recordings
	Debug          Debug
	// DryRun prints where the ranks would run, but starts nothing.
	DryRun bool
	// Verbose prints to stderr what ibrun does.
	Verbose bool
	// LogJSON prints the messages of ibrun itself as JSON.
	LogJSON bool
	// Notes name the flags of other launchers that have no effect, and the reasons. They are for
	// the user who has asked by Verbose.
	Notes []string
}

// Program is one program of a job.
type Program struct {
	// Ranks is how many ranks run it. 0: given neither on the command line nor in the environment.
	Ranks int
	// Args are the program (a file to execute, a Go package directory or a .go file) and its arguments.
	Args []string
	// Dir is the directory it runs in. Empty: ibrun's own.
	Dir string
	// Env are variables, NAME=VALUE, that are added to ibrun's own environment.
	Env []string
	// Unset are the names of variables that should be added, but are not set.
	Unset []string
}

// Translate returns the arguments that follow the program's name with flags of ibrun instead of those of other launchers,
// and with the programs that files list. Flags that are unknown remain.
func Translate(args []string) ([]string, error) {
	c, err := foreign.Translate(args, ownFlags())
	if err != nil {
		return nil, err
	}
	return c.Args(), nil
}

// ownFlags returns a function that reports whether ibrun has a flag of this name, and whether it needs a value.
func ownFlags() foreign.Native {
	flags := append(new(Program).flags(nil), new(Options).jobFlags()...)
	return func(name string) (value, known bool) {
		if isHelp(name) || name == "version" {
			return false, true
		}
		f := findFlag(flags, name)
		return f != nil && f.arg != "", f != nil
	}
}

func isHelp(name string) bool { return name == "h" || name == "help" }

// Parse parses the arguments that follow the program's name, also with flags of other launchers. lookup returns the environment
// forms of flags and the variables that -x names. Any error but [ErrHelp] and [ErrVersion] is a usage error. With an error, only
// LogJSON of the Options is set.
func Parse(args []string, lookup LookupFunc) (*Options, error) {
	o := &Options{Limits: Limits{Grace: defaultGrace, FailureGrace: defaultFailureGrace}, DeadlockReport: deadlockReport}
	o.findLogFormat(args, lookup)
	if err := o.parse(args, lookup); err != nil {
		return &Options{LogJSON: o.LogJSON}, err
	}
	return o, nil
}

// findLogFormat sets LogJSON as the environment and the flags before the first unknown one say, so that errors are printed in
// that form. It ignores errors: parse finds them again.
func (o *Options) findLogFormat(args []string, lookup LookupFunc) {
	f := logFormatFlag(&o.LogJSON)
	_ = f.setFromEnvironment(lookup)
	words := make([]foreign.Word, len(args))
	for i, arg := range args {
		words[i].Text = arg
	}
	given, _, _ := readFlags(words, append(new(Program).flags(lookup), new(Options).jobFlags()...), nil)
	for _, w := range given {
		if slices.Contains(f.names, w.name) {
			_ = f.set(w.value)
		}
	}
}

// parse parses the command line.
func (o *Options) parse(args []string, lookup LookupFunc) error {
	c, err := foreign.Translate(args, ownFlags())
	if err != nil {
		return err
	}
	o.Notes = c.Notes
	for rest := c.Words; ; {
		end := slices.IndexFunc(rest, func(w foreign.Word) bool { return w.Text == ":" })
		words := rest
		if end >= 0 {
			words = rest[:end]
		}
		p, err := o.parseProgram(words, lookup)
		if err != nil {
			return err
		}
		o.Programs = append(o.Programs, p)
		if end < 0 {
			break
		}
		rest = rest[end+1:]
	}
	for _, p := range o.Programs {
		if p.Ranks == 0 && len(o.Programs) > 1 {
			return fmt.Errorf("with several programs, each needs its own -n: %s has none", p.Args[0])
		}
	}
	if err := o.checkNodes(); err != nil {
		return err
	}
	if err := o.checkEncrypt(); err != nil {
		return err
	}
	if o.Metrics.DiscoveryFile != "" && o.Metrics.Address == "" {
		return errors.New("--metrics-sd requires --metrics")
	}
	hostsOfAll, _ := lookup("IBRUN_METRICS_HOSTS") // which a cluster may set for all jobs
	if o.Metrics.Hosts != nil && o.Metrics.Address == "" && hostsOfAll == "" {
		return errors.New("--metrics-hosts requires --metrics")
	}
	if o.Metrics.Linger != nil && o.Metrics.Address == "" {
		return errors.New("--metrics-linger requires --metrics")
	}
	return nil
}

// parseProgram parses one program with the flags before it.
func (o *Options) parseProgram(words []foreign.Word, lookup LookupFunc) (Program, error) {
	var p Program
	job := o.jobFlags()
	known, jobOnly := append(p.flags(lookup), job...), []flag(nil)
	if len(o.Programs) > 0 {
		known, jobOnly = p.flags(lookup), job
	}
	given, rest, err := readFlags(words, known, jobOnly)
	if err != nil {
		return p, err
	}
	dashed := len(rest) < len(words) && words[len(words)-len(rest)-1].Text == "--"
	words = rest
	for i := range known {
		f := &known[i]
		if slices.ContainsFunc(given, func(w givenFlag) bool { return w.flag == f }) {
			continue // the command line overrides the variable, even for flags that may be repeated
		}
		if err := f.setFromEnvironment(lookup); err != nil {
			return p, err
		}
	}
	for _, w := range given {
		if err := w.flag.set(w.value); err != nil {
			return p, w.word.Wrap(fmt.Errorf("%s: %w", cmp.Or(w.word.Typed, strings.TrimSpace(manual.WithDashes(w.name)+" "+
				""+w.value)), err))
		}
	}
	if len(words) == 0 || words[0].Text == "" {
		err := errors.New("no program to start: ibrun -n 4 PROGRAM [ARGUMENT...]")
		if len(given) > 0 {
			err = given[0].word.Wrap(err)
		}
		return p, err
	}
	for _, w := range words {
		p.Args = append(p.Args, w.Text)
	}
	if !dashed && p.Ranks == 0 {
		return p, checkMisplaced(words)
	}
	return p, nil
}

// checkMisplaced returns an error if the first argument of a program is the flag for the number of ranks, which is meant for
// ibrun in most cases. words are the program and its arguments.
func checkMisplaced(words []foreign.Word) error {
	if len(words) < 3 || !slices.Contains([]string{"-n", "--n", "-np", "--np"}, words[1].Text) {
		return nil
	}
	if _, err := strconv.Atoi(words[2].Text); err != nil {
		return nil
	}
	flag := words[1].Text + " " + words[2].Text
	return words[1].Wrap(fmt.Errorf("%s after the program is an argument of %s: write ibrun %[1]s %[2]s, or, if the program wants "+
		"it, ibrun -- %[2]s %[1]s", flag, words[0].Text))
}

// givenFlag is a flag as given on the command line.
type givenFlag struct {
	flag        *flag
	word        foreign.Word
	name, value string
}

// readFlags parses the flags at the beginning of words and returns the words after them. The jobOnly flags are known, but are
// an error here: they must precede the first program. With an error, it returns the flags before it.
func readFlags(words []foreign.Word, known, jobOnly []flag) (given []givenFlag, rest []foreign.Word, err error) {
	for len(words) > 0 && len(words[0].Text) > 1 && words[0].Text[0] == '-' {
		word := words[0]
		words = words[1:]
		if word.Text == "--" {
			break
		}
		name, value, hasValue := strings.Cut(strings.TrimPrefix(word.Text[1:], "-"), "=")
		f := findFlag(known, name)
		if f == nil {
			return given, nil, word.Wrap(unknownFlag(word, name, known, jobOnly))
		}
		switch {
		case hasValue:
		case f.arg == "":
			value = "true"
		case len(words) == 0:
			return given, nil, word.Wrap(fmt.Errorf("%s needs a value: %[1]s %[2]s", word.Text, f.arg))
		default:
			value, words = words[0].Text, words[1:]
		}
		given = append(given, givenFlag{f, word, name, value})
	}
	return given, words, nil
}

// unknownFlag returns the error for a flag that is not known here.
func unknownFlag(word foreign.Word, name string, known, jobOnly []flag) error {
	typed := cmp.Or(word.Typed, word.Text)
	switch {
	case isHelp(name):
		return ErrHelp
	case name == "version":
		return ErrVersion
	case findFlag(jobOnly, name) != nil:
		return fmt.Errorf("%s applies to the whole job: put it before the first program", typed)
	}
	guesses := foreign.FlagGuesses()
	if write, found := foreign.Find(guesses, strings.ReplaceAll(name, "_", "-")); found {
		return fmt.Errorf("unknown flag %s: write %s", typed, write)
	}
	nearest := nearestFlag(name, known)
	if write, found := foreign.Find(guesses, nearest); found {
		return fmt.Errorf("unknown flag %s (like --%s): write %s", typed, nearest, write)
	}
	if nearest != "" {
		return fmt.Errorf("unknown flag %s (did you mean %s?)", typed, manual.WithDashes(nearest))
	}
	return fmt.Errorf("unknown flag %s (ibrun --help lists the flags)", typed)
}
