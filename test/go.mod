module github.com/qwatch/qwatch/test

go 1.26.8

require github.com/qwatch/qwatch v0.0.0

replace github.com/qwatch/qwatch => ../
