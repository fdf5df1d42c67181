package dashboards

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/grafana/grafana-foundation-sdk/go/resource"
	"go.yaml.in/yaml/v3"
)

// A Format is a shape in which Grafana, or what feeds it, takes dashboards.
type Format string

// The formats.
const (
	FormatClassic      Format = "classic"      // one JSON file a dashboard, to import by hand or by any tool
	FormatResource     Format = "resource"     // dashboard.grafana.app/v2 resources and their folder's, for Grafana 13
	FormatConfigMap    Format = "configmap"    // one ConfigMap a dashboard, for the sidecar of Grafana's Helm chart
	FormatProvisioning Format = "provisioning" // a tree for Grafana's provisioning folder
)

// Formats returns the formats, the default first.
func Formats() []Format {
	return []Format{FormatClassic, FormatResource, FormatConfigMap, FormatProvisioning}
}

// The defaults of Output.
const (
	DefaultFolder           = "qwatch"
	DefaultProvisioningPath = "/etc/grafana/provisioning/dashboards/qwatch"
	DefaultSidecarLabel     = "grafana_dashboard=1"
	DefaultFolderAnnotation = "grafana_folder"
)

// Output says how dashboards are written. The zero value is good.
type Output struct {
	// Folder is the title of the folder in Grafana. Default DefaultFolder. "-" is none: they go to the top.
	Folder string
	// FolderUID is the folder's uid. Default "qwatch"; it is used where a format takes one.
	FolderUID string
	// Namespace of ConfigMaps. Default: none, so that of whoever applies them.
	Namespace string
	// Labels are on every ConfigMap, besides DefaultSidecarLabel; one of them may give that label another value.
	Labels map[string]string
	// FolderAnnotation is the annotation from which the sidecar learns the folder. Default DefaultFolderAnnotation.
	FolderAnnotation string
	// Path is where Grafana finds the dashboards' files of FormatProvisioning. Default DefaultProvisioningPath.
	Path string
}

func (o Output) withDefaults() Output {
	set := func(s *string, v string) {
		if *s == "" {
			*s = v
		}
	}
	set(&o.Folder, DefaultFolder)
	set(&o.FolderUID, DefaultFolder)
	set(&o.FolderAnnotation, DefaultFolderAnnotation)
	set(&o.Path, DefaultProvisioningPath)
	if o.Folder == "-" {
		o.Folder, o.FolderUID = "", ""
	}
	return o
}

// What Kubernetes takes as the name of a namespace, as a label's or an annotation's key, and as a label's value; and Grafana as a uid.
var (
	namespaceName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)
	metadataKey   = regexp.MustCompile(`^([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`)
	labelValue    = regexp.MustCompile(`^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$`)
	grafanaUID    = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,40}$`)
)

// Validate returns every fault, joined.
func (o Output) Validate() error {
	o = o.withDefaults()
	var faults []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			faults = append(faults, fmt.Errorf(format, args...))
		}
	}
	check(o.FolderUID == "" || grafanaUID.MatchString(o.FolderUID), "folder uid %q is not 1 to 40 letters, digits, hyphens and underscores", o.FolderUID)
	check(o.Namespace == "" || namespaceName.MatchString(o.Namespace), "namespace %q is not a name that Kubernetes takes", o.Namespace)
	check(metadataKey.MatchString(o.FolderAnnotation), "folder annotation %q is not a key that Kubernetes takes", o.FolderAnnotation)
	check(path.IsAbs(o.Path), "provisioning path %q is not absolute: Grafana reads it from wherever it runs", o.Path)
	for _, key := range slices.Sorted(maps.Keys(o.Labels)) {
		check(metadataKey.MatchString(key), "label %q is not a key that Kubernetes takes", key)
		check(labelValue.MatchString(o.Labels[key]), "label %s=%q is not a value that Kubernetes takes", key, o.Labels[key])
	}
	return errors.Join(faults...)
}

// A File is one file of a format; Name is its path with slashes, relative to where the files go.
type File struct {
	Name string
	Data []byte
}

// Files writes dashboards in a format, in an order that does not change. Its errors are the output's faults, and
// a format that there is not.
func Files(all []Dashboard, format Format, o Output) ([]File, error) {
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("write dashboards: %w", err)
	}
	o = o.withDefaults()
	var files []File
	add := func(name string, data []byte, err error) error {
		files = append(files, File{name, data})
		return err
	}
	var err error
	switch format {
	case FormatClassic:
		for _, d := range all {
			data, failed := d.Classic()
			err = errors.Join(err, add(d.UID+".json", data, failed))
		}
	case FormatResource:
		if o.FolderUID != "" {
			data, failed := indented(FolderResource(o.FolderUID, o.Folder), "folder "+o.FolderUID)
			err = errors.Join(err, add("folder-"+o.FolderUID+".json", data, failed))
		}
		for _, d := range all {
			data, failed := d.Resource(o.FolderUID)
			err = errors.Join(err, add(d.UID+".json", data, failed))
		}
	case FormatConfigMap:
		for _, d := range all {
			data, failed := d.configMap(o)
			err = errors.Join(err, add(d.UID+".yaml", data, failed))
		}
	case FormatProvisioning:
		data, failed := o.provider()
		err = errors.Join(err, add("dashboards/qwatch.yaml", data, failed))
		for _, d := range all {
			data, failed := d.Classic()
			err = errors.Join(err, add("dashboards/qwatch/"+d.UID+".json", data, failed))
		}
	default:
		return nil, fmt.Errorf("write dashboards: there is no format %q", format)
	}
	return files, err
}

// FolderResource is a folder as a folder.grafana.app/v1 resource.
func FolderResource(uid, title string) resource.Manifest {
	return resource.Manifest{
		ApiVersion: "folder.grafana.app/v1", Kind: "Folder",
		Metadata: resource.Metadata{Name: uid, Labels: map[string]string{"app.kubernetes.io/name": Tag}},
		Spec:     map[string]any{"title": title},
	}
}

// meta and configMap are a ConfigMap, in the order people write it.
type meta struct {
	Name        string            `yaml:"name"`
	Namespace   string            `yaml:"namespace,omitempty"`
	Labels      map[string]string `yaml:"labels"`
	Annotations map[string]string `yaml:"annotations,omitempty"`
}

type configMap struct {
	APIVersion string            `yaml:"apiVersion"`
	Kind       string            `yaml:"kind"`
	Metadata   meta              `yaml:"metadata"`
	Data       map[string]string `yaml:"data"`
}

func (d Dashboard) configMap(o Output) ([]byte, error) {
	text, err := d.Classic()
	if err != nil {
		return nil, err
	}
	key, value, _ := strings.Cut(DefaultSidecarLabel, "=")
	m := configMap{"v1", "ConfigMap", meta{
		Name: d.UID, Namespace: o.Namespace, Labels: map[string]string{"app.kubernetes.io/name": Tag, key: value},
	}, map[string]string{d.UID + ".json": string(text)}}
	maps.Copy(m.Metadata.Labels, o.Labels)
	if o.Folder != "" {
		m.Metadata.Annotations = map[string]string{o.FolderAnnotation: o.Folder}
	}
	return plainYAML(m, "config map "+d.UID)
}

// provider is the file that tells Grafana where the dashboards are.
func (o Output) provider() ([]byte, error) {
	type options struct {
		Path string `yaml:"path"`
	}
	type provider struct {
		Name            string  `yaml:"name"`
		OrgID           int     `yaml:"orgId"`
		Folder          string  `yaml:"folder"`
		FolderUID       string  `yaml:"folderUid"`
		Type            string  `yaml:"type"`
		DisableDeletion bool    `yaml:"disableDeletion"`
		UpdateInterval  int     `yaml:"updateIntervalSeconds"`
		AllowUIUpdates  bool    `yaml:"allowUiUpdates"`
		Options         options `yaml:"options"`
	}
	return plainYAML(struct {
		APIVersion int        `yaml:"apiVersion"`
		Providers  []provider `yaml:"providers"`
	}{1, []provider{{
		Name: Tag, OrgID: 1, Folder: o.Folder, FolderUID: o.FolderUID, Type: "file", UpdateInterval: 30, Options: options{o.Path},
	}}}, "provider")
}

func indented(v any, what string) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, fmt.Errorf("write %s: %w", what, err)
	}
	return b.Bytes(), nil
}

func plainYAML(v any, what string) ([]byte, error) {
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := errors.Join(e.Encode(v), e.Close()); err != nil {
		return nil, fmt.Errorf("write %s: %w", what, err)
	}
	return b.Bytes(), nil
}
