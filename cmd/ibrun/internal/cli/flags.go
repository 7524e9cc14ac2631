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
)

// flag is one flag with all its names.
type flag struct {
	names []string
	arg   string // what stands for its value in the help; empty for a switch
	help  string
	set   func(string) error
}

// flags are those that belong to one program.
func (p *Program) flags(getenv func(string) string) []flag {
	return []flag{
		{[]string{"n", "np"}, "N", "start N ranks; without it one for each core", func(s string) (err error) {
			p.Ranks, err = ranks(s)
			return err
		}},
		{[]string{"wdir"}, "DIR", "run the program in directory DIR", func(s string) error {
			p.Dir = s
			return nil
		}},
		{[]string{"x", "env"}, "NAME[=VALUE]", "give the ranks this variable; may be repeated", func(s string) error {
			name, _, hasValue := strings.Cut(s, "=")
			switch {
			case name == "":
				return errors.New("a variable needs a name")
			case hasValue:
				p.Env = append(p.Env, s)
			case getenv(name) != "":
				p.Env = append(p.Env, name+"="+getenv(name))
			}
			return nil
		}},
	}
}

// group is flags that belong together, as help shows them.
type group struct {
	title string
	flags []flag
}

// groups are the flags that concern the whole job.
func (o *Options) groups() []group {
	return []group{
		{"Where ranks run (more in docs/affinity.md)", o.placementFlags()},
		{"How bytes travel", o.transportFlags()},
		{"Names for ranks (more in docs/sessions.md)", o.psetFlags()},
		{"What is shown, and debuggers", o.outputFlags()},
		{"On several machines start the same command on each, with", o.nodeFlags()},
	}
}

// flags are all of them.
func (o *Options) flags() (all []flag) {
	for _, g := range o.groups() {
		all = append(all, g.flags...)
	}
	return all
}

// placementFlags are those of the policy, in all spellings. What has no help is not shown.
func (o *Options) placementFlags() (all []flag) {
	for _, f := range placement.Flags() {
		all = append(all, flag{f.Names, f.Arg, f.Help, func(s string) error { return f.Set(&o.Policy, s) }})
	}
	return all
}

func (o *Options) transportFlags() []flag {
	return []flag{
		{[]string{"transport"}, "LIST", "let ranks use only these of " + strings.Join(transports.SelectableNames(), ", "),
			func(s string) error {
				o.Transport = s
				return checkTransports(s)
			}},
		{[]string{"tcp-interfaces"}, "LIST", "use only these for TCP, such as eth0,10.1.0.0/16,^docker0", func(s string) error {
			o.Interfaces = s
			return nil
		}},
	}
}

func (o *Options) outputFlags() []flag {
	return []flag{
		{[]string{"l", "label"}, "", "begin each line of output with the rank, as in [3]", toggle(&o.Label)},
		{[]string{"output"}, "PATTERN", "write the output of each rank to a file; %r is the rank, %h the host", func(s string) error {
			o.Output = s
			return checkPattern(s)
		}},
		{[]string{"timeout"}, "TIME", "end the job after 90 (seconds), 5m or 1h30m", func(s string) (err error) {
			o.Timeout, err = duration(s)
			return err
		}},
		{[]string{"dry-run"}, "", "print where the ranks would run, and start nothing", toggle(&o.DryRun)},
		{[]string{"v", "verbose"}, "", "say on stderr what is done", toggle(&o.Verbose)},
		{[]string{"metrics"}, "ADDR", "let Prometheus ask at 127.0.0.1:9464, :0 or a path (docs/metrics.md)", func(s string) error {
			o.Metrics = s
			return nil
		}},
		{[]string{"metrics-sd"}, "FILE", "write where to file FILE, for file_sd_configs of Prometheus", func(s string) error {
			o.MetricsSD = s
			return nil
		}},
		{[]string{"report"}, "", "tell at the end where time went, and write ibrun-report-JOB.html and .json; --report=FILE.html,\n" +
			"or FILE.json, writes these instead, and --report=- none (docs/report.md)", o.setReport},
		{[]string{"pprof"}, "FILE", "write CPU and goroutine profiles of all ranks, for go tool pprof", file(&o.Profile)},
		{[]string{"trace"}, "FILE.json", "write calls and messages of all ranks, for ui.perfetto.dev", file(&o.Trace)},
		{[]string{"dlv"}, "RANKS", "start these ranks (0,2-3) under dlv, and print the port of each", o.Delve.Set},
		{[]string{"gdb"}, "RANKS", "start these ranks under gdb: in a window, in gdbserver with a port, or to show a crash", o.GDB.Set},
	}
}

// setReport reads --report, which is a switch, --report=FILE,FILE... and --report=-
func (o *Options) setReport(s string) error {
	if on, err := strconv.ParseBool(s); err == nil {
		if o.Report = on; !on {
			o.ReportBare, o.ReportTo = false, nil
		}
		return nil
	}
	if s == "-" {
		o.Report, o.ReportBare, o.ReportTo = true, true, nil
		return nil
	}
	o.ReportBare = false
	for name := range strings.SplitSeq(s, ",") {
		if err := report.CheckName(name); err != nil {
			return err
		}
		o.ReportTo = append(o.ReportTo, name)
	}
	o.Report = true
	return nil
}

// file reads the name of a file that is to be written.
func file(to *string) func(string) error {
	return func(s string) error {
		if s == "" || strings.HasSuffix(s, "/") {
			return errors.New("want the name of a file")
		}
		*to = s
		return nil
	}
}

// checkTransports checks only the names. The ranks find out whether the transports work where they run.
func checkTransports(list string) error {
	_, err := transports.ParseList(list)
	return err
}

// find returns the flag of that name, or nil.
func find(flags []flag, name string) *flag {
	for i := range flags {
		if slices.Contains(flags[i].names, name) {
			return &flags[i]
		}
	}
	return nil
}

func (f *flag) setFromEnvironment(getenv func(string) string) error {
	for _, name := range f.names {
		variable := environment(name)
		if value := getenv(variable); value != "" {
			if err := f.set(value); err != nil {
				return fmt.Errorf("%s=%s: %w", variable, value, err)
			}
		}
	}
	return nil
}

// environment is the name of a flag as a variable.
func environment(name string) string {
	return "IBRUN_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
}

func toggle(b *bool) func(string) error {
	return func(s string) (err error) {
		if *b, err = strconv.ParseBool(s); err != nil {
			return errors.New("a switch is true or false")
		}
		return nil
	}
}

func ranks(s string) (int, error) {
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

func duration(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if seconds, errNumber := strconv.ParseFloat(s, 64); errNumber == nil {
		d, err = time.Duration(seconds*float64(time.Second)), nil
	}
	if err != nil || d <= 0 {
		return 0, errors.New("a time is written 90, 1.5s, 5m or 1h30m, and is more than nothing")
	}
	return d, nil
}

// checkPattern accepts %r, %h and %% only.
func checkPattern(s string) error {
	for rest := s; ; {
		i := strings.IndexByte(rest, '%')
		if i < 0 {
			return nil
		}
		if rest = rest[i+1:]; rest == "" || !strings.Contains("rh%", rest[:1]) {
			return errors.New("a pattern knows %r for the rank, %h for the host and %% for %")
		}
		rest = rest[1:]
	}
}
