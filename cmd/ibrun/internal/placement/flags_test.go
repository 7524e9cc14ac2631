package placement

import (
	"reflect"
	"strings"
	"testing"
)

func TestSet(t *testing.T) {
	for flags, want := range map[string]Policy{
		"map-by=slot":                                   {},
		"map-by=socket":                                 {Map: Package},
		"map-by=L3CACHE":                                {Map: L3},
		"map-by=ppr:4:node":                             {PerNode: 4},
		"map-by=ppr:1:socket:PE=2":                      {Map: Package, PerObject: 1, CPUs: 2},
		"map-by=device":                                 {Map: Device},
		"map-by=device=network":                         {Map: Device, Device: "nic"},
		"map-by=device=mlx5_0":                          {Map: Device, Device: "mlx5_0"},
		"map-by=gpu":                                    {Map: Device, Device: "gpu"},
		"map-by=rankfile:FILE=r.txt":                    {FilePath: "r.txt"},
		"map-by=core:NOOVERSUBSCRIBE":                   {Map: Core, Strict: true},
		"map-by=core:oversubscribe":                     {Map: Core},
		"bind-to=core:overload-allowed":                 {Bind: Core},
		"bind-to=core:2":                                {Bind: Core, CPUs: 2},
		"bind-to=none:report":                           {Bind: None, Report: true},
		"bynode bind-to-socket report-bindings":         {Map: Node, Bind: Package, Report: true},
		"byslot=false bind-to-core=0":                   {},
		"npernode=8 tpp=16":                             {PerNode: 8, CPUs: 16},
		"ppn=2 map-by=numa":                             {Map: NUMA, PerNode: 2},
		"tasks-per-node=3":                              {PerNode: 3},
		"rf=f offset=2 c=4":                             {FilePath: "f", Offset: 2, Packed: true, CPUs: 4},
		"m=block:block nooversubscribe oversubscribe=1": {},
		"map-by=:OVERSUBSCRIBE":                         {},
		"map-by=ppr:2:numa map-by=:PE=3":                {Map: NUMA, PerObject: 2, CPUs: 3},
		"bind-to=numa map-by=package:HWTCPUS":           {Map: Package, Bind: NUMA},
		"map-by=core:HWTCPUS":                           {Map: Core, Bind: HWThread},
		"map-by=core:CORECPUS":                          {Map: Core},
		"use-hwthread-cpus":                             {Map: HWThread, Bind: HWThread},
		"map-by=numa bind-to=core use-hwthread-cpus":    {Map: NUMA, Bind: Core},
		"bind-to=l3 bind-to=:overload-allowed":          {Bind: L3},
		"bind-to=:REPORT":                               {Report: true},
		"nooversubscribe map-by=numa":                   {Map: NUMA, Strict: true},
		"nooversubscribe map-by=:oversubscribe":         {},
		"display-map perhost=2":                         {PerNode: 2, Report: true},
		"cpu-bind=quiet,cores":                          {Bind: Core},
		"cpu_bind=none":                                 {Bind: None},
		"rank-file=f display=map,bindings":              {FilePath: "f", Report: true},
	} {
		if got := policy(t, strings.Fields(flags)...); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, want %+v", flags, got, want)
		}
	}
}

func TestSetRefuses(t *testing.T) {
	for _, c := range []struct{ name, value, want string }{
		{"map-by", "", "slot or ppr:N:OBJECT"},
		{"map-by", "board", "l3cache"},
		{"map-by", "ppr:2", "ppr:N:OBJECT"},
		{"map-by", "ppr:0:node", "from 1"},
		{"map-by", "ppr:99999999999999999999:node", "from 1"},
		{"map-by", "ppr:2:slot", "unknown object"},
		{"map-by", "core=3", "does not accept =3"},
		{"map-by", "core:PE=x", "from 1"},
		{"map-by", "core:SPAN", "SPAN"},
		{"map-by", ":SPAN", "SPAN"},
		{"bind-to", "", "unknown object"},
		{"bind-to", ":2", "unknown modifier"},
		{"map-by", "rankfile", "FILE=PATH"},
		{"bind-to", "board", "or none"},
		{"bind-to", "numa:2", "unknown modifier"},
		{"cpus-per-rank", "0", "from 1"},
		{"offset", "-1", "invalid number of slots"},
		{"N", "2", "--ppn"},
		{"o", "out.%t", "--output"},
		{"display", "topo", "bindings or map"},
		{"distribution", "plane=3", "block, cyclic"},
		{"cpu-bind", "map_cpu:0,1", "--rank-file"},
		{"bynode", "perhaps", "true or false"},
		{"report-bindings", "", "true or false"},
		{"by-magic", "", "unknown placement flag"},
	} {
		var p Policy
		err := p.Set(c.name, c.value)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %q: %v, want an error with %q", c.name, c.value, err, c.want)
		}
		if !reflect.DeepEqual(p, Policy{}) {
			t.Errorf("%s %q was refused, but changed the policy to %+v", c.name, c.value, p)
		}
	}
}

// No two flags have the same name, and native flags have help.
func TestFlags(t *testing.T) {
	seen := map[string]bool{}
	for _, f := range Flags() {
		for _, name := range f.Names {
			if seen[name] {
				t.Errorf("two flags have the name %s", name)
			}
			seen[name] = true
		}
	}
	for _, f := range nativeFlags() {
		if f.Help == "" {
			t.Errorf("%s has no help", f.Names[0])
		}
	}
}
