package benchcmd

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/ibrun/ibrun/bench"
	"github.com/ibrun/ibrun/internal/printable"
	"github.com/ibrun/ibrun/internal/samples"
	"github.com/ibrun/ibrun/internal/transports"
	"github.com/ibrun/ibrun/mpi"
)

// measure is the rank program: every rank measures, rank 0 prints.
func (c *command) measure(ctx context.Context, op bench.Op, o *options) (err error) {
	p, err := mpi.Init(ctx, nil)
	if err != nil {
		return err
	}
	if op.Name == opInit.Name {
		return p.Finalize()
	}
	wrong := 0
	out := c.printer(op, o)
	err = bench.Run(p.World(), op, o.cfg, func(r bench.Result) error {
		wrong += r.Wrong
		return out.result(r)
	})
	if err != nil {
		return err // without Finalize: the job ends with this rank's exit code
	}
	if err := out.end(); err != nil {
		return err
	}
	if err := p.Finalize(); err != nil {
		return err
	}
	if wrong > 0 {
		return fmt.Errorf("%s: %d elements arrived wrong", op.Name, wrong)
	}
	return nil
}

// measureInit measures the time of commands whose ranks only initialise and finalize.
func (c *command) measureInit(ctx context.Context, o *options) error {
	const rounds = 7
	ours := c.ibrunSubject(transports.Auto)
	var took []float64
	for range rounds {
		points, err := ours.run(ctx, job{op: opInit, ranks: o.ranks})
		if err != nil {
			return err
		}
		took = append(took, points[0])
	}
	out := c.printer(opInit, o)
	r := bench.Result{Op: opInit.Name, Ranks: o.ranks, Unit: opInit.Unit, Value: samples.Median(took), Iterations: rounds}
	if err := out.result(r); err != nil {
		return err
	}
	return out.end()
}

// printer writes the results of one operation as they come.
type printer struct {
	w     *bufio.Writer
	o     *options
	table *bench.Table
	seen  []bench.Result
}

func (c *command) printer(op bench.Op, o *options) *printer {
	w := bufio.NewWriter(c.stdout)
	return &printer{w: w, o: o, table: bench.NewTable(w, op, o.cfg)}
}

func (p *printer) result(r bench.Result) error {
	p.seen = append(p.seen, r)
	if !p.o.json {
		if err := p.table.Row(r); err != nil {
			return err
		}
		return p.w.Flush()
	}
	if err := json.NewEncoder(printable.NewJSONWriter(p.w)).Encode(r); err != nil {
		return fmt.Errorf("writing JSON: %w", err)
	}
	return p.w.Flush()
}

// end draws the plot, if one was asked for.
func (p *printer) end() error {
	if !p.o.plot {
		return nil
	}
	width := p.o.width
	if width <= 0 {
		width = 80
	}
	if err := p.w.WriteByte('\n'); err != nil {
		return err
	}
	if err := bench.Plot(p.w, p.seen, width); err != nil {
		return err
	}
	return p.w.Flush()
}

// milliseconds converts a duration to milliseconds.
func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
