from ferrule import ContentPartError, file, image
from ferrule.content import describe_part, to_dict

shot = image("examples/media/fixture.png")
print(describe_part(shot))
print(sorted(to_dict(shot)))

note = file(b"a,b\n1,2\n", mime_type="text/csv", name="t.csv")
print(describe_part(note), note.name)

try:
    image(b"a,b\n1,2\n")
except ContentPartError as error:
    print(error)
