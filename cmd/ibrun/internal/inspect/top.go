package inspect

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/ibrun/ibrun/internal/printable"
	"github.com/ibrun/ibrun/perf/jobs"
)

// Row is a rank with its activity between two samples.
type Row struct {
	jobs.Rank
	// MPIShare is the share of the time that it spent within calls, and CPUs the number of processors that it kept busy.
	MPIShare float64 `json:"mpi_share"`
	CPUs     float64 `json:"cpus"`
	// CallsRate is operations per second. OutRate, InRate and CollectiveRate are bytes per second: the increase of BytesOut,
	// BytesIn and BytesCollective.
	CallsRate      float64 `json:"calls_per_second"`
	OutRate        float64 `json:"bytes_out_per_second"`
	InRate         float64 `json:"bytes_in_per_second"`
	CollectiveRate float64 `json:"bytes_collective_per_second"`
}

// Table is what `ibrun top` prints for one interval.
type Table struct {
	jobs.Job
	// Seconds is the time between the two samples.
	Seconds float64 `json:"seconds"`
	// Long are the messages that the ranks have sent in this time and that are not eager, by transport, length and protocol.
	Long []jobs.LongMessages `json:"long_messages,omitempty"`
	Rows []Row               `json:"rows"`
}

// newTable computes the rates from two samples of a job.
func newTable(job jobs.Job, first, then []jobs.Rank, apart time.Duration) *Table {
	before := map[int]*jobs.Rank{}
	for i := range first {
		before[first[i].Rank] = &first[i]
	}
	t := &Table{Job: job, Seconds: apart.Seconds()}
	var long []jobs.LongMessages
	for _, r := range then {
		row := Row{Rank: r}
		if b := before[r.Rank]; b != nil && t.Seconds > 0 {
			row.CPUs = max(r.CPU-b.CPU, 0) / t.Seconds
			row.CallsRate = float64(increase(b.Calls, r.Calls)) / t.Seconds
			row.OutRate = float64(increase(b.BytesOut, r.BytesOut)) / t.Seconds
			row.InRate = float64(increase(b.BytesIn, r.BytesIn)) / t.Seconds
			row.CollectiveRate = float64(increase(b.BytesCollective, r.BytesCollective)) / t.Seconds
			row.MPIShare = mpiShare(b, &r, t.Seconds)
			long = append(long, longSince(b.Long, r.Long)...)
		}
		t.Rows = append(t.Rows, row)
	}
	t.Long = mergeLong(long)
	return t
}

func increase(from, to uint64) uint64 {
	if to < from { // the counter was reset
		return 0
	}
	return to - from
}

// mpiShare returns the share of the time between two samples that a rank spent within calls. The counters do not contain
// operations in progress: an operation that is in progress in both samples took all of the time.
func mpiShare(before, now *jobs.Rank, apart float64) float64 {
	ended := min(max((now.MPI-before.MPI)/apart, 0), 1)
	for i := range now.Waits {
		for j := range before.Waits {
			if now.Waits[i].Seq == before.Waits[j].Seq {
				return 1
			}
		}
	}
	return ended
}

// Text prints the table with at most so many lines and columns; 0 means no limit.
func (t *Table) Text(w io.Writer, lines, columns int) error {
	var table strings.Builder
	tab := tabwriter.NewWriter(&table, 0, 0, 2, ' ', tabwriter.AlignRight)
	node := func(string) string { return "" }
	if t.Nodes > 1 {
		node = func(name string) string { return name + "\t" }
	}
	fmt.Fprintln(tab, "RANK\t"+node("NODE")+"PID\tSTATE\tMPI\tCPU\tCALLS/s\tOUT/s\tIN/s\tCOLL/s\tUNEXP\tPOSTED\t  NOW")
	rows, long := t.Rows, t.longText()
	most := lines - 3 // without the head, the line above the ranks, and the one below them
	switch {
	case lines > 0 && most < 2:
		long = ""
	case long != "":
		most--
	}
	if lines > 0 && len(rows) > most {
		rows = rows[:max(most, 0)]
	}
	for i := range rows {
		r := &rows[i]
		fmt.Fprintf(tab, "%d\t%s%d\t%s\t%.0f%%\t%.0f%%\t%s\t%s\t%s\t%s\t%d\t%d\t  %s\n",
			r.Rank.Rank, node(printable.Line(r.Host)), r.PID, r.State, r.MPIShare*100, r.CPUs*100,
			formatNumber(r.CallsRate), formatNumber(r.OutRate), formatNumber(r.InRate),
			formatNumber(r.CollectiveRate), r.Unexpected, r.Posted, r.currentCalls())
	}
	if err := tab.Flush(); err != nil {
		return err
	}
	where := printable.Line(t.Host)
	if t.Nodes > 1 {
		where = fmt.Sprintf("%d nodes", t.Nodes)
	}
	head := fmt.Sprintf("job %s on %s: %d ranks, running %s: %s\n", t.ID, where, t.Size, formatDuration(time.Since(t.Began)),
		printable.Line(strings.Join(t.Command, " ")))
	var b strings.Builder
	for line := range strings.Lines(head + long + table.String()) {
		b.WriteString(truncateLine(printable.Text(line), columns))
	}
	if n := len(t.Rows) - len(rows); n > 0 {
		fmt.Fprintf(&b, "%d more ranks\n", n)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// truncateLine shortens a line to less than that many columns; 0 means no limit.
func truncateLine(line string, columns int) string {
	letters := []rune(strings.TrimRight(line, " \n"))
	if columns > 0 {
		letters = letters[:min(len(letters), columns-1)]
	}
	return string(letters) + "\n"
}

// currentCalls returns the operations in which the rank waits and its progress.
func (r *Row) currentCalls() string {
	var all []string
	for i := range r.Waits {
		all = append(all, strings.TrimPrefix(waitText(&r.Waits[i]), "in ")+", "+formatDuration(seconds(r.Waits[i].Seconds)))
	}
	switch {
	case r.Error != "":
		return r.Error
	case r.Total > 0:
		all = append(all, fmt.Sprintf("%d of %d", r.Done, r.Total))
	}
	return strings.Join(all, "; ")
}

// formatNumber formats a number with about three digits: 1.25M.
func formatNumber(x float64) string {
	for _, unit := range []string{"", "k", "M", "G"} {
		switch {
		case x < 9.995 && unit != "":
			return fmt.Sprintf("%.2f%s", x, unit)
		case x < 99.95 && unit != "":
			return fmt.Sprintf("%.1f%s", x, unit)
		case x < 999.5:
			return fmt.Sprintf("%.0f%s", x, unit)
		}
		x /= 1000
	}
	return fmt.Sprintf("%.0fT", x)
}
