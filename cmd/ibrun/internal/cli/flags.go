package cli

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/placement"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/report"
	"github.com/ibrun/ibrun/internal/transports"
	"github.com/ibrun/ibrun/internal/tunables"
)

// flag is one flag of the command line, the only source of its parsing and of its line in the help.
type flag struct {
	names []string
	arg   string // the name of its value in the help; empty for a boolean flag
	help  string // empty: not listed in the help
	set   func(string) error
}

// flags returns the flags that apply to one program.
func (p *Program) flags(lookup LookupFunc) []flag {
	return []flag{
		{[]string{"n", "np"}, "N", "start N ranks (default: one per core that a CPU quota allows)", func(s string) (err error) {
			p.Ranks, err = parseRankCount(s)
			return err
		}},
		{[]string{"wdir"}, "DIR", "run the program in directory DIR", stringFlag(&p.Dir)},
		{[]string{"x", "env"}, "NAME[=VALUE]", "set this environment variable for the ranks; may be repeated", func(s string) error {
			name, _, hasValue := strings.Cut(s, "=")
			if name == "" {
				return errors.New("a variable needs a name")
			}
			if hasValue {
				p.Env = append(p.Env, s)
			} else if value, set := lookup(name); set { // also to an empty value
				p.Env = append(p.Env, name+"="+value)
			} else {
				p.Unset = append(p.Unset, name)
			}
			return nil
		}},
	}
}

// flagGroup is one section of the help.
type flagGroup struct {
	title string
	flags []flag
}

// flagGroups returns the flags that apply to the whole job.
func (o *Options) flagGroups() []flagGroup {
	return []flagGroup{
		{"Where ranks run (docs/affinity.md)", o.placementFlags()},
		{"Transports (docs/transports.md)", o.transportFlags()},
		{"Process sets (docs/sessions.md)", o.psetFlags()},
		{"Output, monitoring and debugging", o.outputFlags()},
		{"Several machines (docs/clusters.md); inside a Slurm, PBS or LSF job its hosts are used otherwise", o.hostFlags()},
		{"Several machines without a way to start programs there; start the same command on each", o.nodeFlags()},
	}
}

// jobFlags returns the flags of all groups.
func (o *Options) jobFlags() (all []flag) {
	for _, g := range o.flagGroups() {
		all = append(all, g.flags...)
	}
	return all
}

// placementFlags returns the flags of the placement policy, including the spellings of other launchers, which have no help
// text.
func (o *Options) placementFlags() (all []flag) {
	for _, f := range placement.Flags() {
		all = append(all, flag{f.Names, f.Arg, f.Help, func(s string) error { return f.Set(&o.Policy, s) }})
	}
	return all
}

func (o *Options) transportFlags() []flag {
	return []flag{
		{[]string{"transport"}, "LIST", "use only the listed transports, of " + strings.Join(transports.SelectableNames(), ", "),
			listFlag(&o.Network.Transports, checkTransports)},
		{[]string{"tcp-interfaces"}, "LIST", "use only these network interfaces for TCP, such as eth0,10.1.0.0/16,^docker0",
			listFlag(&o.Network.Interfaces, func(string) error { return nil })},
		{[]string{"encrypt"}, "", "encrypt what the nodes and the ranks on them send each other (TLS 1.3); give it to all nodes,\n" +
			"or to none; RDMA is not used then", boolFlag(&o.Network.Encrypt)},
		{[]string{"checksum"}, "on|off", "whether messages over TCP between machines have checksums (default: on);\n" +
			"the same at all nodes",
			func(s string) error {
				_, err := tunables.ParseChecksum(s)
				o.Network.Checksum = s
				return err
			}},
	}
}

func (o *Options) outputFlags() []flag {
	return []flag{
		{[]string{"l", "label"}, "", "prefix each line of output with the rank, as in [3]", boolFlag(&o.Output.Label)},
		{[]string{"output"}, "PATTERN", "write the output of each rank to a file; %r is the rank, %h the host", func(s string) error {
			o.Output.Pattern = s
			return checkPattern(s, "rh%", "want %r for the rank, %h for the host or %% for a percent sign after each %")
		}},
		{[]string{"timeout"}, "TIME", "end the job after TIME, such as 90 (seconds), 5m or 1h30m", func(s string) (err error) {
			o.Limits.Timeout, err = parseDuration(s)
			return err
		}},
		{[]string{"grace"}, "TIME", "kill ranks that still run TIME after a signal to ibrun or --timeout (default 10s; in a Slurm\n" +
			"job 2s less than KillWait)", func(s string) error {
			o.Limits.GraceGiven = true
			return durationFlag(&o.Limits.Grace)(s)
		}},
		{[]string{"failure-grace"}, "TIME", "kill ranks that still run TIME after another rank has failed (default 500ms)",
			durationFlag(&o.Limits.FailureGrace)},
		{[]string{"check"}, "", "compare the calls of all ranks, which costs time: errors name both ranks and both source lines;\n" +
			"end a job that is deadlocked (docs/check.md)", boolFlag(&o.Check)},
		{[]string{"deadlock-report"}, "TIME", "report when all ranks wait for each other for TIME (default 10s; 0: never)",
			durationFlag(&o.DeadlockReport)},
		{[]string{"dry-run"}, "", "print where the ranks would run, but start nothing", boolFlag(&o.DryRun)},
		{[]string{"v", "verbose"}, "", "print to stderr what ibrun does", boolFlag(&o.Verbose)},
		logFormatFlag(&o.LogJSON),
		{[]string{"metrics"}, "ADDR", "serve Prometheus metrics at HOST:PORT, :PORT (loopback only; 0 picks a free port)\n" +
			"or a Unix socket path (docs/metrics.md)", stringFlag(&o.Metrics.Address)},
		{[]string{"metrics-sd"}, "FILE", "write the metrics endpoint to FILE in Prometheus file_sd format; %h is the host, which a\n" +
			"job on several nodes needs", func(s string) error {
			o.Metrics.DiscoveryFile = s
			return checkPattern(s, "h%", "want %h for the host or %% for a percent sign after each %")
		}},
		{[]string{"metrics-hosts"}, "NAMES", "answer requests for metrics for these names of this host, too, separated by commas;\n" +
			".DOMAIN: for its short name in this domain",
			o.setMetricsHosts},
		{[]string{"metrics-linger"}, "TIME", "keep the metrics of a job that has ended at most TIME, until its exit code is scraped\n" +
			"(default: two intervals of the earlier scrapes; 0: never)", func(s string) error {
			o.Metrics.Linger = new(time.Duration)
			return durationFlag(o.Metrics.Linger)(s)
		}},
		{[]string{"report"}, "", "report where the time went when the job ends, and write ibrun-report-JOB.html and .json;\n" +
			"--report=FILE.html,FILE.json writes these files instead, --report=- writes no file (docs/report.md)", o.setReport},
		{[]string{"pprof"}, "FILE", "write CPU and goroutine profiles of all ranks, for go tool pprof",
			fileFlag(&o.Recordings.Profile)},
		{[]string{"trace"}, "FILE.json", "write calls and messages of all ranks, for ui.perfetto.dev",
			fileFlag(&o.Recordings.Trace)},
		{[]string{"dlv"}, "RANKS", "start these ranks (0,2-3) under dlv and print the socket of each", o.Debug.Delve.Set},
		{[]string{"gdb"}, "RANKS", "start these ranks under gdb: in a terminal window, in gdbserver, or in batch mode to show a crash",
			o.Debug.GDB.Set},
	}
}

func logFormatFlag(asJSON *bool) flag {
	return flag{[]string{"log-format"}, "text|json", "print the messages of ibrun itself as text (default), or each as a line of\n" +
		"JSON (docs/live.md)", func(s string) error {
		if s != "text" && s != "json" {
			return errors.New("want text or json")
		}
		*asJSON = s == "json"
		return nil
	}}
}

// setReport sets --report (a boolean flag), --report=FILE,FILE... and --report=- (no files).
func (o *Options) setReport(s string) error {
	if on, err := strconv.ParseBool(s); err == nil {
		if o.Report.Enabled = on; !on {
			o.Report.Bare, o.Report.Files = false, nil
		}
		return nil
	}
	if s == "-" {
		o.Report.Enabled, o.Report.Bare, o.Report.Files = true, true, nil
		return nil
	}
	o.Report.Bare = false
	for name := range strings.SplitSeq(s, ",") {
		if err := report.CheckName(name); err != nil {
			return err
		}
		o.Report.Files = append(o.Report.Files, name)
	}
	o.Report.Enabled = true
	return nil
}

// fileFlag returns a setter for the name of an output file.
func fileFlag(to *string) func(string) error {
	return func(s string) error {
		if s == "" || strings.HasSuffix(s, "/") {
			return errors.New("want a file name")
		}
		*to = s
		return nil
	}
}

// checkTransports checks only the names. Each rank checks on its own node whether the transports work.
func checkTransports(list string) error {
	if list == "" {
		return errors.New("want a list of transports, or " + transports.Auto + " for all of them")
	}
	_, err := transports.ParseList(list)
	return err
}

// checkEncrypt checks that the ranks may use a transport between nodes that encrypts.
func (o *Options) checkEncrypt() error {
	list, err := transports.ParseList(o.Network.Transports)
	rdma, tcp := transports.RDMA.String(), transports.TCP.String()
	if err != nil || !o.Network.Encrypt || !slices.Contains(list, rdma) || slices.Contains(list, tcp) {
		return err
	}
	return fmt.Errorf("--encrypt: RDMA does not encrypt: add tcp to --transport %s, or leave out --encrypt in a network "+
		"that no one else can reach (SECURITY.md)", o.Network.Transports)
}

// findFlag returns the flag with this name, or nil.
func findFlag(flags []flag, name string) *flag {
	for i := range flags {
		if slices.Contains(flags[i].names, name) {
			return &flags[i]
		}
	}
	return nil
}

// setFromEnvironment sets the flag from its environment forms, if any is set.
func (f *flag) setFromEnvironment(lookup LookupFunc) error {
	for _, name := range f.names {
		variable := variableName(name)
		if value, _ := lookup(variable); value != "" {
			if err := f.set(value); err != nil {
				return fmt.Errorf("%s=%s: %w", variable, value, err)
			}
		}
	}
	return nil
}

// variableName returns the name of the environment form of a flag.
func variableName(name string) string {
	return "IBRUN_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
}

// listFlag returns a setter for a flag whose value is a list. If the flag is given several times, the lists are joined.
func listFlag(to *string, check func(list string) error) func(string) error {
	return func(s string) error {
		if err := check(s); err != nil {
			return err
		}
		*to = joinLists(*to, s)
		return check(*to)
	}
}

// setMetricsHosts sets the further names of this host.
func (o *Options) setMetricsHosts(s string) error {
	for name := range strings.SplitSeq(s, ",") {
		if name == "" || strings.ContainsAny(name, ":/[]* \t") {
			return fmt.Errorf("%q: want names of hosts without ports, or domains that begin with a dot, separated by commas", s)
		}
		o.Metrics.Hosts = append(o.Metrics.Hosts, name)
	}
	return nil
}

// stringFlag returns a setter that accepts any value.
func stringFlag(to *string) func(string) error {
	return func(s string) error {
		*to = s
		return nil
	}
}

// boolFlag returns a setter for a boolean flag.
func boolFlag(b *bool) func(string) error {
	return func(s string) (err error) {
		if *b, err = strconv.ParseBool(s); err != nil {
			return errors.New("want true or false")
		}
		return nil
	}
}

// parseRankCount parses the value of -n.
func parseRankCount(s string) (int, error) {
	n, err := strconv.Atoi(s)
	switch {
	case errors.Is(err, strconv.ErrRange) || err == nil && n > MaxRanks:
		return 0, fmt.Errorf("a job has at most %d ranks", MaxRanks)
	case err != nil:
		return 0, errors.New("not a number")
	case n < 1:
		return 0, errors.New("a job has at least 1 rank")
	}
	return n, nil
}

// The defaults of --grace and --failure-grace.
const (
	defaultGrace        = 10 * time.Second
	defaultFailureGrace = 500 * time.Millisecond
)

// durationFlag returns a setter that accepts 0 and positive durations.
func durationFlag(to *time.Duration) func(string) error {
	return func(s string) (err error) {
		if seconds, errNumber := strconv.ParseFloat(s, 64); errNumber == nil && seconds == 0 {
			*to = 0
			return nil
		}
		*to, err = parseDuration(s)
		return err
	}
}

// parseDuration parses a positive duration; a number without a unit is seconds.
func parseDuration(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if seconds, errNumber := strconv.ParseFloat(s, 64); errNumber == nil {
		d, err = time.Duration(seconds*float64(time.Second)), nil
	}
	if err != nil || d <= 0 {
		return 0, errors.New("want a positive duration such as 90 (seconds), 1.5s, 5m or 1h30m")
	}
	return d, nil
}

// checkPattern checks that one of the letters follows every % in s, which may be a second %. want is the text of the error.
func checkPattern(s, letters, want string) error {
	for rest := s; ; {
		i := strings.IndexByte(rest, '%')
		if i < 0 {
			return nil
		}
		if rest = rest[i+1:]; rest == "" || !strings.Contains(letters, rest[:1]) {
			return errors.New(want)
		}
		rest = rest[1:]
	}
}
