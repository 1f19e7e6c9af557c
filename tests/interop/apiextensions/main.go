// SPDX-License-Identifier: Apache-2.0

// Judges CustomResourceDefinitions, one JSON document a line, with the validation of kube-apiserver: one line each
// with its errors and the estimated cost of every rule.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/install"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apimachinery/pkg/runtime"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/environment"
	"sigs.k8s.io/yaml"
)

type ruleOut struct {
	Path    string `json:"path"`
	Rule    string `json:"rule"`
	Cost    uint64 `json:"cost"`
	Card    uint64 `json:"card"`
	Msg     uint64 `json:"msg,omitempty"`
	Err     string `json:"err,omitempty"`
	MsgErr  string `json:"msgErr,omitempty"`
	UsesOld bool   `json:"old,omitempty"`
}

type out struct {
	Name   string    `json:"name"`
	Errors []string  `json:"errors"`
	Rules  []ruleOut `json:"rules"`
}

var envset = environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion(), true)

// walk adds the rules of a schema node and of all below it.
func walk(s *structuralschema.Structural, path string, root bool, res *[]ruleOut) {
	if len(s.XValidations) > 0 {
		d := model.SchemaDeclType(s, root || s.XEmbeddedResource)
		if d != nil {
			crs, err := cel.Compile(s, d, celconfig.PerCallLimit, envset, cel.NewExpressionsEnvLoader())
			if err != nil {
				*res = append(*res, ruleOut{Path: path, Err: err.Error()})
			}
			for i, cr := range crs {
				r := ruleOut{Path: path, Rule: s.XValidations[i].Rule, Cost: cr.MaxCost, Card: cr.MaxCardinality, Msg: cr.MessageExpressionMaxCost, UsesOld: cr.UsesOldSelf}
				if cr.Error != nil {
					r.Err = cr.Error.Detail
				}
				if cr.MessageExpressionError != nil {
					r.MsgErr = cr.MessageExpressionError.Detail
				}
				*res = append(*res, r)
			}
		}
	}
	for k, p := range s.Properties {
		p := p
		walk(&p, path+"."+k, false, res)
	}
	if s.Items != nil {
		walk(s.Items, path+"[]", false, res)
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Structural != nil {
		walk(s.AdditionalProperties.Structural, path+"{}", false, res)
	}
}

func main() {
	scheme := runtime.NewScheme()
	install.Install(scheme)
	sc := bufio.NewScanner(os.Stdin)
	sc.Buffer(make([]byte, 1<<20), 64<<20)
	enc := json.NewEncoder(os.Stdout)
	enc.SetEscapeHTML(false)
	for sc.Scan() {
		var v1 apiextensionsv1.CustomResourceDefinition
		line := sc.Bytes()
		if len(line) == 0 {
			continue
		}
		if err := yaml.Unmarshal(line, &v1); err != nil {
			fmt.Fprintln(os.Stderr, "unmarshal:", err)
			os.Exit(1)
		}
		o := out{Name: v1.Name, Errors: []string{}}
		scheme.Default(&v1)
		v1.Status = apiextensionsv1.CustomResourceDefinitionStatus{StoredVersions: []string{}}
		for _, v := range v1.Spec.Versions {
			if v.Storage {
				v1.Status.StoredVersions = append(v1.Status.StoredVersions, v.Name)
			}
		}
		var in apiextensions.CustomResourceDefinition
		if err := scheme.Convert(&v1, &in, nil); err != nil {
			fmt.Fprintln(os.Stderr, "convert:", err)
			os.Exit(1)
		}
		for _, e := range validation.ValidateCustomResourceDefinition(context.Background(), &in) {
			o.Errors = append(o.Errors, e.Error())
		}
		for i, v := range v1.Spec.Versions {
			if v.Schema == nil || v.Schema.OpenAPIV3Schema == nil {
				continue
			}
			var js apiextensions.JSONSchemaProps
			if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(v.Schema.OpenAPIV3Schema, &js, nil); err != nil {
				continue
			}
			s, err := structuralschema.NewStructural(&js)
			if err != nil {
				continue
			}
			walk(s, fmt.Sprintf("%d", i), true, &o.Rules)
		}
		enc.Encode(o)
	}
}
