// Judges what the chart renders, with Kubernetes' own code and offline. It reads YAML from stdin and writes
// one JSON object: the objects, and what a strict API server (unknown fields, defaults, validation, warnings)
// and the Pod Security level "restricted" have against each.
//
//	validate < rendered.yaml
//	validate promql < expressions.json
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// Verdict is what is said of one object.
type Verdict struct {
	Object json.RawMessage `json:"object"`
	// Why an API server refuses it, or warns of it.
	Problems []string `json:"problems"`
	// Why the level refuses its pods.
	Restricted []string `json:"restricted"`
	Baseline   []string `json:"baseline"`
}

func main() {
	var answer any
	var err error
	if len(os.Args) > 1 && os.Args[1] == "promql" {
		answer, err = judgeExpressions(os.Stdin)
	} else {
		answer, err = judgeStream(os.Stdin)
	}
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(answer)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func judgeStream(in io.Reader) ([]Verdict, error) {
	verdicts := []Verdict{}
	documents := utilyaml.NewYAMLReader(bufio.NewReader(in))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return verdicts, nil
		}
		if err != nil {
			return nil, err
		}
		asJSON, err := yaml.YAMLToJSONStrict(document)
		if err != nil {
			return nil, fmt.Errorf("%w in\n%s", err, document)
		}
		if bytes.Equal(asJSON, []byte("null")) {
			continue
		}
		verdicts = append(verdicts, judge(asJSON))
	}
}

func judge(document []byte) Verdict {
	verdict := Verdict{Object: document, Problems: []string{}, Restricted: []string{}, Baseline: []string{}}
	object, err := decode(document)
	if err != nil {
		verdict.Problems = append(verdict.Problems, err.Error())
		return verdict
	}
	// Defaults fill it in place; the policy looks at what a cluster would run.
	if known, ok := object.(runtime.Object); ok {
		verdict.Problems = append(verdict.Problems, create(known)...)
		verdict.Restricted, verdict.Baseline = podSecurity(known)
	}
	return verdict
}
