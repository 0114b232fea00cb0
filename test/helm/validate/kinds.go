package main

import (
	"context"
	"encoding/json"
	"fmt"

	keda "github.com/kedacore/keda/v2/apis/keda/v1alpha1"
	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	_ "k8s.io/kubernetes/pkg/apis/apps/install"
	_ "k8s.io/kubernetes/pkg/apis/autoscaling/install"
	"k8s.io/kubernetes/pkg/apis/core"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	_ "k8s.io/kubernetes/pkg/apis/networking/install"
	_ "k8s.io/kubernetes/pkg/apis/policy/install"
	"k8s.io/kubernetes/pkg/registry/apps/deployment"
	"k8s.io/kubernetes/pkg/registry/apps/statefulset"
	"k8s.io/kubernetes/pkg/registry/autoscaling/horizontalpodautoscaler"
	"k8s.io/kubernetes/pkg/registry/core/configmap"
	"k8s.io/kubernetes/pkg/registry/core/persistentvolumeclaim"
	"k8s.io/kubernetes/pkg/registry/core/secret"
	"k8s.io/kubernetes/pkg/registry/core/service"
	"k8s.io/kubernetes/pkg/registry/core/serviceaccount"
	"k8s.io/kubernetes/pkg/registry/networking/ingress"
	"k8s.io/kubernetes/pkg/registry/networking/networkpolicy"
	"k8s.io/kubernetes/pkg/registry/policy/poddisruptionbudget"
	"sigs.k8s.io/yaml"
)

// What an API server does with each kind that the chart may render. A kind that is missing here is a problem.
var strategies = map[string]rest.RESTCreateStrategy{
	"ConfigMap":               configmap.Strategy,
	"Deployment":              deployment.Strategy,
	"HorizontalPodAutoscaler": horizontalpodautoscaler.Strategy,
	"Ingress":                 ingress.Strategy,
	"NetworkPolicy":           networkpolicy.Strategy,
	"PersistentVolumeClaim":   persistentvolumeclaim.Strategy,
	"PodDisruptionBudget":     poddisruptionbudget.Strategy,
	"Secret":                  secret.Strategy,
	"Service":                 service.Strategy,
	"ServiceAccount":          serviceaccount.Strategy,
	"StatefulSet":             statefulset.Strategy,
}

// Kinds of operators, which are only decoded.
var custom = map[schema.GroupVersionKind]func() any{
	monitoring.SchemeGroupVersion.WithKind("PodMonitor"):     func() any { return &monitoring.PodMonitor{} },
	monitoring.SchemeGroupVersion.WithKind("ServiceMonitor"): func() any { return &monitoring.ServiceMonitor{} },
	monitoring.SchemeGroupVersion.WithKind("PrometheusRule"): func() any { return &monitoring.PrometheusRule{} },
	keda.SchemeGroupVersion.WithKind("ScaledObject"):         func() any { return &keda.ScaledObject{} },
}

var strict = serializer.NewCodecFactory(legacyscheme.Scheme, serializer.EnableStrict).UniversalDeserializer()

// decode refuses fields that the kind does not have. Objects of operators come back as nil.
func decode(document []byte) (any, error) {
	var head struct{ APIVersion, Kind string }
	if err := json.Unmarshal(document, &head); err != nil {
		return nil, err
	}
	kind := schema.FromAPIVersionAndKind(head.APIVersion, head.Kind)
	if empty, ok := custom[kind]; ok {
		return nil, yaml.UnmarshalStrict(document, empty())
	}
	object, _, err := strict.Decode(document, nil, nil)
	if err != nil {
		return nil, err
	}
	legacyscheme.Scheme.Default(object)
	return object, nil
}

// create goes the way of an object that is posted, up to where it would be stored.
func create(object runtime.Object) []string {
	kind := object.GetObjectKind().GroupVersionKind()
	strategy, ok := strategies[kind.Kind]
	if !ok {
		return []string{fmt.Sprintf("no strategy for kind %s", kind.Kind)}
	}
	internal, err := legacyscheme.Scheme.ConvertToVersion(object, schema.GroupVersion{Group: kind.Group, Version: runtime.APIVersionInternal})
	if err != nil {
		return []string{err.Error()}
	}
	accessor, err := meta.Accessor(internal)
	if err != nil {
		return []string{err.Error()}
	}
	if accessor.GetNamespace() == "" {
		accessor.SetNamespace("default")
	}
	rest.FillObjectMetaSystemFields(accessor)
	ctx := genericapirequest.WithRequestInfo(
		genericapirequest.WithNamespace(context.Background(), accessor.GetNamespace()),
		&genericapirequest.RequestInfo{APIGroup: kind.Group, APIVersion: kind.Version, IsResourceRequest: true},
	)
	// The store of Services does this before anything else.
	if headless, ok := internal.(*core.Service); ok && headless.Spec.ClusterIP != "" {
		headless.Spec.ClusterIPs = []string{headless.Spec.ClusterIP}
	}
	problems := []string{}
	if err := rest.BeforeCreate(strategy, ctx, internal); err != nil {
		problems = append(problems, reason(err))
	}
	return append(problems, strategy.WarningsOnCreate(ctx, internal)...)
}

func reason(err error) string {
	if status, ok := err.(errors.APIStatus); ok {
		return status.Status().Message
	}
	return err.Error()
}
