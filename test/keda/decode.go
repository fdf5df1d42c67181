package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/prometheus/prometheus/promql/parser"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/kedacore/keda/v2/apis/keda/v1alpha1"
)

// decode reads YAML documents and complains about the first that KEDA would not take as it is.
func decode(in io.Reader, out io.Writer) error {
	reader := utilyaml.NewYAMLReader(bufio.NewReader(in))
	b := builder{auths: map[string]*v1alpha1.TriggerAuthentication{}, secrets: secrets()}
	for n := 1; ; n++ {
		doc, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("document %d: %w", n, err)
		}
		if len(bytes.TrimSpace(doc)) == 0 {
			continue
		}
		what, err := b.decode(doc)
		if err != nil {
			return fmt.Errorf("document %d: %w\n%s", n, err, doc)
		}
		fmt.Fprintln(out, what)
	}
}

// builder builds scalers with the authentications decoded so far.
type builder struct {
	auths   map[string]*v1alpha1.TriggerAuthentication
	secrets map[string]string // by parameter
}

func (b builder) decode(doc []byte) (string, error) {
	var kind struct {
		Kind string `json:"kind"`
	}
	if err := yaml.Unmarshal(doc, &kind); err != nil {
		return "", err
	}
	switch kind.Kind {
	case "TriggerAuthentication":
		var a v1alpha1.TriggerAuthentication
		if err := yaml.UnmarshalStrict(doc, &a); err != nil {
			return "", err
		}
		b.auths[a.Name] = &a
		return "TriggerAuthentication " + a.Name, nil
	case "ScaledObject":
		var o v1alpha1.ScaledObject
		if err := yaml.UnmarshalStrict(doc, &o); err != nil {
			return "", err
		}
		if err := v1alpha1.ValidateTriggers(o.Spec.Triggers); err != nil {
			return "", err
		}
		if err := v1alpha1.CheckFallbackValid(&o); err != nil {
			return "", err
		}
		return "ScaledObject " + o.Name, b.build(o.Spec.Triggers)
	case "ScaledJob":
		var j v1alpha1.ScaledJob
		if err := yaml.UnmarshalStrict(doc, &j); err != nil {
			return "", err
		}
		if err := v1alpha1.ValidateTriggers(j.Spec.Triggers); err != nil {
			return "", err
		}
		return "ScaledJob " + j.Name + " " + j.Spec.ScalingStrategy.Strategy, b.build(j.Spec.Triggers)
	default:
		return "", fmt.Errorf("kind %q", kind.Kind)
	}
}

// build makes the scaler of each trigger, which checks its metadata, and parses its query.
func (b builder) build(triggers []v1alpha1.ScaleTriggers) error {
	for _, t := range triggers {
		params := map[string]string{}
		if ref := t.AuthenticationRef; ref != nil {
			a := b.auths[ref.Name]
			if a == nil {
				return fmt.Errorf("there is no TriggerAuthentication %s", ref.Name)
			}
			for _, s := range a.Spec.SecretTargetRef {
				params[s.Parameter] = b.secrets[s.Parameter]
			}
		}
		if q, ok := t.Metadata["query"]; ok {
			if _, err := parser.NewParser(parser.Options{}).ParseExpr(q); err != nil {
				return fmt.Errorf("query %s: %w", q, err)
			}
		}
		s, err := Trigger{Type: t.Type, Metadata: t.Metadata, Auth: params}.scaler()
		if err != nil {
			text, _ := json.Marshal(t)
			return fmt.Errorf("%s: %w", text, err)
		}
		if err := s.Close(context.Background()); err != nil {
			return err
		}
	}
	return nil
}
