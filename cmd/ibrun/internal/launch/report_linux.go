package launch

import (
	"bytes"
	"compress/flate"
	"debug/buildinfo"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/report"
	"github.com/ibrun/ibrun/hw"
	"github.com/ibrun/ibrun/perf"
	"golang.org/x/sys/unix"
)

// NodeRecorder draws a node for the report, from when its ranks are started on.
type NodeRecorder struct {
	task  *Task
	ports []report.Port // as they were then
}

// NewNodeRecorder is nil if no report is wanted.
func NewNodeRecorder(t *Task, wanted bool) *NodeRecorder {
	if !wanted {
		return nil
	}
	return &NodeRecorder{t, report.ReadPorts(os.DirFS("/"))}
}

// Record is what this node tells of itself at the end.
func (p *NodeRecorder) Record() *report.Node {
	t := p.task
	n := &report.Node{Name: t.Host, Version: BuildVersion(), Kernel: kernel(), Processor: processor(),
		Environment: report.Environment(Lookup(slices.Concat(t.Env, commonEnv(t)))),
		Ports:       report.PortsSince(p.ports, report.ReadPorts(os.DirFS("/"))), Ranks: []report.Place{}}
	if allowed, err := hw.Affinity(); err == nil { // otherwise it is not known
		n.PUs = len(allowed)
	}
	for _, r := range t.Ranks {
		place := report.Place{Rank: r.Rank, Program: r.Program, Shares: r.Crowded, Device: strings.Join(r.Devices, ",")}
		if len(r.PUs) > 0 {
			place.Bound = hw.FormatList(r.PUs)
		}
		if len(r.Memory) > 0 {
			place.Memory = hw.FormatList(r.Memory)
		}
		n.Ranks = append(n.Ranks, place)
	}
	return n
}

// commonEnv are the variables that the user gave to every program.
func commonEnv(t *Task) []string {
	if len(t.Programs) == 1 {
		return t.Programs[0].Env
	}
	return nil
}

func BuildVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		return info.Main.Version
	}
	return "(unknown)"
}

// kernel is the system and its version, or empty.
func kernel() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return ""
	}
	return unix.ByteSliceToString(u.Sysname[:]) + " " + unix.ByteSliceToString(u.Release[:]) + " " +
		unix.ByteSliceToString(u.Machine[:])
}

// processor is the model's name, or empty where the kernel does not tell it.
func processor() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// reportPrograms are those of the job, with what Go wrote into them when it built them.
func (c *coordinator) reportPrograms() (all []report.Program) {
	for i, p := range c.opts.Programs {
		program := report.Program{Ranks: c.task.Programs[i].Ranks, Args: p.Args}
		at := slices.IndexFunc(c.task.Ranks, func(r RankTask) bool { return r.Program == i })
		if at >= 0 {
			if info, err := buildinfo.ReadFile(c.task.Ranks[at].Path); err == nil { // it is Go's
				program.Go, program.Library = info.GoVersion, libraryVersion(info)
			}
		}
		all = append(all, program)
	}
	return all
}

// libraryVersion is the version of this module in a program.
func libraryVersion(info *debug.BuildInfo) string {
	const ours = "github.com/ibrun/ibrun"
	if info.Main.Path == ours {
		return info.Main.Version
	}
	for _, m := range info.Deps {
		if m.Path == ours {
			if m.Replace != nil {
				return m.Replace.Path + " " + m.Replace.Version
			}
			return m.Version
		}
	}
	return ""
}

// writeReport tells where the time of the job went, if that is wanted. Whatever goes wrong with it does not concern the job.
func (c *coordinator) writeReport(v *Outcome, began time.Time, wall time.Duration) {
	if c.recorder == nil {
		return
	}
	j := report.Job{ID: c.task.JobID, Version: BuildVersion(), Programs: c.reportPrograms(), Began: began, Wall: wall,
		Code: v.Code, Failure: v.Lines, Ranks: make([]report.Rank, c.task.Size)}
	for _, n := range c.nodes {
		facts := n.record
		switch {
		case n.conn == nil:
			facts = c.recorder.Record()
		case facts == nil:
			facts = n.unknownRecord()
		}
		for i, p := range facts.Ranks {
			facts.Ranks[i].Program = c.task.ProgramOf(p.Rank) // whatever another node says
		}
		j.Nodes = append(j.Nodes, *facts)
		for rank, recorded := range n.pages {
			j.Ranks[rank] = recorded
		}
	}
	for _, g := range c.local.monitor.Samples() {
		j.Ranks[g.Rank] = report.Rank{Snapshot: g.Snapshot, Err: g.Err}
	}
	r := report.New(j)
	if err := r.Text(c.Err); err != nil {
		c.Say("report: %v", err)
	}
	c.writeReportFiles(r.Write)
}

// writeReportFiles writes the files of the report, and tells where they are, or once why they are not.
func (c *coordinator) writeReportFiles(write func(name string) error) {
	names := c.opts.ReportTo
	if len(names) == 0 && !c.opts.ReportBare {
		for _, form := range []string{".html", ".json"} {
			name := "ibrun-report-" + c.task.JobID + form
			if here, err := filepath.Abs(name); err == nil { // otherwise nobody knows where this is
				name = here
			}
			names = append(names, name)
		}
	}
	var written []string
	missing := map[string][]string{} // by the reason
	for _, name := range names {
		err := write(name)
		if err == nil {
			written = append(written, name)
			continue
		}
		why := err.Error()
		if errno := unix.Errno(0); errors.As(err, &errno) { // the same for all files of a disk that is full
			why = errno.Error()
		}
		missing[why] = append(missing[why], name)
	}
	if len(written) > 0 {
		c.Say("report: %s", strings.Join(written, ", "))
	}
	for why, names := range missing {
		c.Say("no report %s: %s", strings.Join(names, ", "), why)
	}
}

// unknownRecord is a node that has told nothing.
func (n *node) unknownRecord() *report.Node {
	facts := &report.Node{Name: n.name, Environment: []report.Variable{}, Ports: []report.Port{}, Ranks: []report.Place{}}
	for _, rank := range n.ranks {
		facts.Ranks = append(facts.Ranks, report.Place{Rank: rank})
	}
	return facts
}

// ProgramOf is the one that a rank runs.
func (t *Task) ProgramOf(rank int) (i int) {
	for rank >= t.Programs[i].Ranks {
		rank -= t.Programs[i].Ranks
		i++
	}
	return i
}

// packPage makes a page short enough to travel: most of it is zero. A page that nobody has written is nil.
func packPage(memory []byte) ([]byte, error) {
	if _, err := perf.Open(memory); errors.Is(err, perf.ErrEmpty) {
		return nil, nil
	}
	var b bytes.Buffer
	w, err := flate.NewWriter(&b, flate.BestSpeed)
	if err != nil {
		return nil, err
	}
	_, err = w.Write(memory)
	if err = errors.Join(err, w.Close()); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// DecodePage reads what packPage made on another node.
func DecodePage(packed []byte) (*perf.Snapshot, error) {
	memory := make([]byte, perf.PageBytes)
	r := flate.NewReader(bytes.NewReader(packed))
	if _, err := io.ReadFull(r, memory); err != nil {
		return nil, fmt.Errorf("read the page of a rank: %w", err)
	}
	if n, err := r.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		return nil, fmt.Errorf("read the page of a rank: it is longer than %d bytes, or broken: %w", perf.PageBytes, err)
	}
	page, err := perf.Open(memory)
	if err != nil {
		return nil, err
	}
	return page.Snapshot()
}

// sendNodeRecord sends node 0 the record of this node and of its ranks, if node 0 wants a report.
func (w *worker) sendNodeRecord() {
	if w.recorder == nil {
		return
	}
	w.cluster.sendEvent(&Event{Kind: EventNodeRecord, NodeRecord: w.recorder.Record()})
	for i, r := range w.local.task.Ranks {
		e := &Event{Kind: EventPage, Rank: r.Rank}
		packed, err := w.local.perfMem.Pack(i)
		switch {
		case err != nil:
			e.Text = err.Error()
		case packed == nil:
			continue
		}
		e.Page = packed
		w.cluster.sendEvent(e)
	}
}

// keepPage takes in what a rank of another node has recorded.
func (n *node) keepPage(e *Event) {
	rank := report.Rank{}
	if rank.Err = errors.New(e.Text); e.Text == "" {
		rank.Snapshot, rank.Err = DecodePage(e.Page)
	}
	if n.pages == nil {
		n.pages = map[int]report.Rank{}
	}
	n.pages[e.Rank] = rank
}

// hasPlaces tells whether all places are of ranks of this node.
func (n *node) hasPlaces(places []report.Place) bool {
	return !slices.ContainsFunc(places, func(p report.Place) bool { return !n.has(p.Rank) })
}
