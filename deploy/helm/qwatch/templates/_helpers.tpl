{{- define "qwatch.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "qwatch.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- $name := include "qwatch.name" . -}}
{{- ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "qwatch.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "qwatch.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "qwatch.image" -}}
{{- if .digest -}}{{ .repository }}@{{ .digest }}{{- else -}}{{ .repository }}:{{ .tag }}{{- end -}}
{{- end -}}

{{/* Labels that select: they never change between versions. */}}
{{- define "qwatch.selector" -}}
app.kubernetes.io/name: {{ include "qwatch.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{- define "qwatch.labels" -}}
{{ include "qwatch.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* The address of the watcher's service. */}}
{{- define "qwatch.host" -}}
{{ include "qwatch.fullname" . }}.{{ .Release.Namespace }}.svc
{{- end -}}

{{/* A duration of the configuration, such as 1m30s or 7d, in seconds, rounded up. */}}
{{- define "qwatch.seconds" -}}
{{- $ms := 0.0 -}}
{{- $units := dict "ms" 1.0 "s" 1000.0 "m" 60000.0 "h" 3600000.0 "d" 86400000.0 -}}
{{- range regexFindAll "[0-9.]+(ms|s|m|h|d)" (toString .) -1 -}}
{{- $number := regexFind "^[0-9.]+" . -}}
{{- $ms = addf $ms (mulf (float64 $number) (get $units (trimPrefix $number .))) -}}
{{- end -}}
{{- ceil (divf $ms 1000.0) | int64 -}}
{{- end -}}

{{/* A consumer group with the defaults filled in: (list root name). */}}
{{- define "qwatch.group" -}}
{{- $root := index . 0 -}}
{{- $given := get $root.Values.consumers (index . 1) | default dict -}}
{{- mergeOverwrite (deepCopy $root.Values.consumerDefaults) (deepCopy $given) | toJson -}}
{{- end -}}

{{- define "qwatch.groupName" -}}
{{ printf "%s-%s" (include "qwatch.fullname" (index . 0)) (index . 1) | trunc 63 | trimSuffix "-" }}
{{- end -}}

{{/* The advanced section of a scaling. drain never asks for fewer replicas than are busy, so that these need not be kept for
the five minutes of Kubernetes' default, as `qwatch keda generate` has it too. */}}
{{- define "qwatch.advanced" -}}
{{- $out := dict -}}
{{- if eq .strategy "drain" -}}
{{- $out = dict "horizontalPodAutoscalerConfig" (dict "behavior" (dict "scaleDown" (dict "stabilizationWindowSeconds" 15))) -}}
{{- end -}}
{{- mergeOverwrite $out (deepCopy .advanced) | toJson -}}
{{- end -}}

{{/* Not empty when KEDA is to ask by TLS: (list root scaling). */}}
{{- define "qwatch.grpcTLS" -}}
{{- $says := (index . 1).enableTLS -}}
{{- $server := get (index . 0).Values.config "server" | default dict -}}
{{- if ternary (get $server "grpcTLS") $says (kindIs "invalid" $says) -}}true{{- end -}}
{{- end -}}

{{/* The secrets that stand in a text instead of ${NAME}, by what precedes them; empty when there are none. */}}
{{- define "qwatch.plain" -}}
{{- $found := list -}}
{{- range regexFindAll "(?i)\\b(AccountKey|SharedAccessSignature|sig)\\s*=[^;&\"\\\\]*" . -1 -}}
{{- if not (regexMatch "=\\s*(\\$\\{[^{}]+\\})?\\s*$" .) -}}{{- $found = append $found (printf "%s=" (regexFind "^[A-Za-z]+" .)) -}}{{- end -}}
{{- end -}}
{{- $found | uniq | join ", " -}}
{{- end -}}
