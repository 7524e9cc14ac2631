package launch

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/allocation"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/cli"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/exitcode"
)

// TestPackedJobs checks that jobs with different offsets in one allocation have different cores: each slot has its share.
func TestPackedJobs(t *testing.T) {
	used := map[string]int{} // NODE PU: the job that has it
	for job, args := range []string{"-n 1 -o 0", "-n 2 -o 1", "-n 5 -o 3"} {
		for _, host := range []string{"n1", "n2"} {
			o, err := cli.Parse(append(strings.Fields(args), "a"), cli.LookupEnv(nil))
			if err != nil {
				t.Fatal(err)
			}
			env := []string{"SLURM_JOB_ID=1", "SLURM_JOB_NODELIST=n[1-2]", "SLURM_TASKS_PER_NODE=4(x2)", "SLURMD_NODENAME=n1"}
			j, _, err := findHosts(newJob(o), env)
			if err != nil {
				t.Fatal(err)
			}
			assignment := j.place.assignment
			node := slices.Index(assignment.Names("n1"), host)
			if node < 0 || assignment.Host(node) == nil {
				continue // the job has no ranks there
			}
			if j, err = j.assigned(assignment, node); err != nil {
				t.Fatal(err)
			}
			p, err := makePlan(flat(8), assignment.Names("n1"), j.programs, &j.place)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range p.placement.Ranks {
				if !r.Bound || len(r.PUs) != 2 {
					t.Errorf("%s: rank %d on %s has the PUs %v; want two of 8, because the host has 4 slots", args, r.Rank, host, r.PUs)
				}
				for _, pu := range r.PUs {
					key := fmt.Sprint(host, " ", pu)
					if other, taken := used[key]; taken {
						t.Errorf("jobs %d and %d share PU %s", other, job, key)
					}
					used[key] = job
				}
			}
		}
	}
	if len(used) != 16 {
		t.Errorf("%d PUs are used by 8 ranks; want 16", len(used))
	}
}

// TestNode0WithoutRanks checks the plan of a node 0 on which no ranks run.
func TestNode0WithoutRanks(t *testing.T) {
	j := newJob(&cli.Options{Programs: []cli.Program{{Args: []string{"a"}}}})
	env := []string{"SLURM_JOB_ID=1", "SLURM_JOB_NODELIST=n[1-2]", "SLURM_TASKS_PER_NODE=2,1", "SLURMD_NODENAME=n3"}
	j, a, err := findHosts(j, env)
	if err != nil {
		t.Fatal(err)
	}
	names := nodeNames("login", &j.place)
	p, err := makePlan(flat(4), names, j.programs, &j.place)
	if err != nil {
		t.Fatal(err)
	}
	if a.Here || !slices.Equal(names, []string{"login", "n1", "n2"}) || fmt.Sprint(p.NodeOf, p.localRanks()) != "[1 1 2] []" ||
		j.programs[0].Ranks != 3 || j.place.nodes != 3 {
		t.Errorf("%v, %v, %+v", a, names, p)
	}
}

// TestAssigned checks that an assignment for another command line is refused, and that another one
// leaves the job unchanged.
func TestAssigned(t *testing.T) {
	s := &allocation.Assignment{Hosts: []allocation.Host{{Name: "a"}}, Here: true, Ranks: []int{1},
		Blocks: []allocation.Block{{Ranks: 1}}}
	one, two := newJob(&cli.Options{Programs: make([]cli.Program, 1)}), newJob(&cli.Options{Programs: make([]cli.Program, 2)})
	for _, node := range []int{-1, 1} {
		if _, err := one.assigned(s, node); err == nil {
			t.Errorf("node %d of 1: no error", node)
		}
	}
	if _, err := two.assigned(s, 0); err == nil {
		t.Error("two programs instead of one: no error")
	}
	if j, err := one.assigned(s, 0); err != nil || j.programs[0].Ranks != 1 || one.programs[0].Ranks != 0 ||
		one.place.assignment != nil {
		t.Errorf("%v; the job is now %+v", err, one)
	}
}

// TestDiscoveryFiles: the nodes that ibrun starts have different discovery files. A job on one host needs no %h.
func TestDiscoveryFiles(t *testing.T) {
	const several, one = "SLURM_JOB_NODELIST=n[1-2]", "SLURM_JOB_NODELIST=n1"
	for _, c := range []struct {
		file, nodes string
		works       bool
	}{
		{"", several, true}, {"a-%h.json", several, true}, {"100%%-%h.json", several, true}, {"a.json", one, true},
		{"a.json", several, false}, {"a-%%h.json", several, false},
	} {
		o := &cli.Options{Programs: []cli.Program{{Args: []string{"a"}}},
			Metrics: cli.Metrics{Address: ":0", DiscoveryFile: c.file}}
		tasks := map[string]string{several: "1(x2)", one: "2"}[c.nodes]
		_, _, err := findHosts(newJob(o), []string{"SLURM_JOB_ID=1", c.nodes, "SLURM_TASKS_PER_NODE=" + tasks, "SLURMD_NODENAME=n1"})
		if (err == nil) != c.works || err != nil && exitcode.Of(err) != exitcode.UsageError {
			t.Errorf("%q, %s: %v", c.file, c.nodes, err)
		}
	}
}

// TestFindHostsErrors checks that mistakes are usage errors.
func TestFindHostsErrors(t *testing.T) {
	for _, env := range [][]string{{"SLURM_JOB_ID=1", "SLURM_JOB_NODELIST=n[1"}, {"OMPI_COMM_WORLD_SIZE=4"}} {
		o := &cli.Options{Programs: []cli.Program{{Args: []string{"a"}}}}
		if _, _, err := findHosts(newJob(o), env); exitcode.Of(err) != exitcode.UsageError {
			t.Errorf("%v: %v", env, err)
		}
	}
}
