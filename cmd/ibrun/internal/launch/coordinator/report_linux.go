package coordinator

import (
	"bytes"
	gobuildinfo "debug/buildinfo"
	"errors"
	"fmt"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/console"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/protocol"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/report"
	"github.com/ibrun/ibrun/internal/buildinfo"
)

// reportPrograms returns the programs of the job, with the versions that the Go linker has stored in them.
func (c *coordinator) reportPrograms() (all []report.Program) {
	for i, words := range c.settings.Report.Commands {
		program := report.Program{Ranks: c.task.Programs[i].Ranks, Args: words}
		at := slices.IndexFunc(c.task.Ranks, func(r protocol.RankTask) bool { return r.Program == i })
		if at >= 0 {
			if info, err := gobuildinfo.ReadFile(string(c.task.Ranks[at].Path)); err == nil { // it is a Go program
				program.Go, program.Library = info.GoVersion, libraryVersion(info)
			}
		}
		all = append(all, program)
	}
	return all
}

// libraryVersion returns the version of this module in a program.
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

// writeReport prints the report and writes its files, if the user asked for one. Errors do not affect the outcome of the job.
func (c *coordinator) writeReport(v *protocol.Outcome, began time.Time, wall time.Duration) {
	if c.recorder == nil {
		return
	}
	j := report.Job{ID: c.task.JobID, Version: buildinfo.Version(), Programs: c.reportPrograms(), Began: began, Wall: wall,
		Code: v.Code, Failure: v.Lines(), Ranks: make([]report.Rank, c.task.Size)}
	for _, n := range c.nodes {
		facts := n.record
		switch {
		case n.conn == nil:
			facts = c.recorder.Record()
		case facts == nil:
			facts = n.unknownRecord()
		}
		for i, p := range facts.Ranks {
			facts.Ranks[i].Program = c.task.ProgramOf(p.Rank) // do not trust what another node sent
		}
		j.Nodes = append(j.Nodes, *facts)
		for rank, recorded := range n.pages {
			j.Ranks[rank] = recorded
		}
	}
	for _, sample := range c.local.monitor.Samples() {
		j.Ranks[sample.Rank] = report.Rank{Snapshot: sample.Snapshot, Err: sample.Err}
	}
	r := report.New(j)
	var text bytes.Buffer
	if err := r.Text(&text); err != nil {
		c.Warn("the report cannot be printed", console.Attrs{Error: err.Error(), Text: fmt.Sprintf("report: %v", err)})
	}
	if c.JSON() {
		c.Info("where the time of the job went", console.Attrs{Text: text.String()})
	} else {
		c.Print(text.String())
	}
	c.writeReportFiles(r.Write)
}

// writeReportFiles writes the files of the report. It prints their names, or the reason why they could not be written.
func (c *coordinator) writeReportFiles(write func(name string) error) {
	names := c.settings.Report.Files
	if len(names) == 0 && !c.settings.Report.Bare {
		for _, form := range []string{".html", ".json"} {
			name := "ibrun-report-" + c.task.JobID + form
			if here, err := filepath.Abs(name); err == nil { // otherwise the relative name is shown
				name = here
			}
			names = append(names, name)
		}
	}
	var written []string
	missing := map[string][]string{} // file names by reason
	for _, name := range names {
		err := write(name)
		if err == nil {
			written = append(written, name)
			continue
		}
		why := err.Error()
		if errno := unix.Errno(0); errors.As(err, &errno) { // the reason is the same for all files, for instance a full disk
			why = errno.Error()
		}
		missing[why] = append(missing[why], name)
	}
	if len(written) > 0 {
		c.Info("the report was written", console.Attrs{Files: written, Text: "report: " + strings.Join(written, ", ")})
	}
	for why, names := range missing {
		c.Warn("the report was not written", console.Attrs{Files: names, Error: why,
			Text: fmt.Sprintf("no report %s: %s", strings.Join(names, ", "), why)})
	}
}

// sendNodeRecord sends the coordinator the record of this node and of its ranks, if the coordinator
// wants a report.
func (w *worker) sendNodeRecord() {
	if w.recorder == nil {
		return
	}
	w.cluster.sendEvent(&protocol.Event{Kind: protocol.EventNodeRecord, NodeRecord: w.recorder.Record()})
	for i, r := range w.local.task.Ranks {
		e := &protocol.Event{Kind: protocol.EventPage, Rank: r.Rank}
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
