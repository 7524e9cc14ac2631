// Command sbom prints the software bill of materials of a Go program, in the JSON format of CycloneDX 1.6: the program, the
// modules it was built from, and the version of Go. All of it is in the program itself (debug/buildinfo).
//
//	go run ./internal/sbom PROGRAM >PROGRAM.cdx.json
package main

import (
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"runtime/debug"
)

// bom and component are the parts of the CycloneDX schema that are used here.
type bom struct {
	Format      string       `json:"bomFormat"`
	SpecVersion string       `json:"specVersion"`
	Version     int          `json:"version"`
	Metadata    metadata     `json:"metadata"`
	Components  []component  `json:"components"`
	DependsOn   []dependency `json:"dependencies"`
}

type metadata struct {
	Component component `json:"component"`
}

type component struct {
	Ref     string `json:"bom-ref"`
	Type    string `json:"type"`
	Name    string `json:"name"`
	Version string `json:"version"`
	PURL    string `json:"purl"`
}

type dependency struct {
	Ref string   `json:"ref"`
	On  []string `json:"dependsOn,omitempty"`
}

func main() {
	log.SetFlags(0)
	if len(os.Args) != 2 {
		log.Fatal("usage: sbom PROGRAM")
	}
	info, err := buildinfo.ReadFile(os.Args[1])
	if err != nil {
		log.Fatalf("sbom: %v", err)
	}
	e := json.NewEncoder(os.Stdout)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	if err := e.Encode(describe(info)); err != nil {
		log.Fatalf("sbom: %v", err)
	}
}

// describe returns the bill of materials of a program. It depends on the time of the build in no way.
func describe(info *debug.BuildInfo) bom {
	program := module("application", &info.Main)
	b := bom{Format: "CycloneDX", SpecVersion: "1.6", Version: 1, Metadata: metadata{program}}
	needs := dependency{Ref: program.Ref}
	add := func(c component) {
		b.Components = append(b.Components, c)
		needs.On = append(needs.On, c.Ref)
	}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		add(module("library", m))
	}
	version := info.GoVersion[len("go"):]
	std := fmt.Sprintf("pkg:golang/std@%s", version)
	add(component{Ref: std, Type: "library", Name: "std", Version: version, PURL: std})
	b.DependsOn = []dependency{needs}
	return b
}

// module returns a module as a component. Its name in a bill is a package URL (purl).
func module(kind string, m *debug.Module) component {
	purl := fmt.Sprintf("pkg:golang/%s@%s", m.Path, m.Version)
	return component{Ref: purl, Type: kind, Name: m.Path, Version: m.Version, PURL: purl}
}
