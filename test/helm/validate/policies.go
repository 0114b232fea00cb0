package main

import (
	"encoding/json"
	"io"
	"sort"

	"github.com/prometheus/prometheus/promql/parser"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
)

// podSecurity asks the admission controller's own rules, those of its newest version.
func podSecurity(object runtime.Object) (restricted, baseline []string) {
	var template corev1.PodTemplateSpec
	switch workload := object.(type) {
	case *appsv1.Deployment:
		template = workload.Spec.Template
	case *appsv1.StatefulSet:
		template = workload.Spec.Template
	default:
		return []string{}, []string{}
	}
	ask := func(level api.Level) []string {
		evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
		if err != nil {
			return []string{err.Error()}
		}
		wanted := api.LevelVersion{Level: level, Version: api.LatestVersion()}
		found := []string{}
		for _, result := range evaluator.EvaluatePod(wanted, &template.ObjectMeta, &template.Spec) {
			if !result.Allowed {
				found = append(found, result.ForbiddenReason+": "+result.ForbiddenDetail)
			}
		}
		return found
	}
	return ask(api.LevelRestricted), ask(api.LevelBaseline)
}

// Expression is what Prometheus' own parser makes of one.
type Expression struct {
	Error   string   `json:"error"`
	Metrics []string `json:"metrics"`
}

func judgeExpressions(in io.Reader) ([]Expression, error) {
	var texts []string
	if err := json.NewDecoder(in).Decode(&texts); err != nil {
		return nil, err
	}
	made := []Expression{}
	for _, text := range texts {
		made = append(made, judgeExpression(text))
	}
	return made, nil
}

func judgeExpression(text string) Expression {
	tree, err := parser.NewParser(parser.Options{}).ParseExpr(text)
	if err != nil {
		return Expression{Error: err.Error(), Metrics: []string{}}
	}
	names := map[string]bool{}
	parser.Inspect(tree, func(node parser.Node, _ []parser.Node) error {
		if selector, ok := node.(*parser.VectorSelector); ok {
			names[selector.Name] = true
		}
		return nil
	})
	metrics := []string{}
	for name := range names {
		metrics = append(metrics, name)
	}
	sort.Strings(metrics)
	return Expression{Metrics: metrics}
}
